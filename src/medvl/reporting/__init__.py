"""From figures to what people read: tables, pages, cards. Needs no torch."""
