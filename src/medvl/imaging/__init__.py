"""Pictures, masks and boxes: reading, measuring, drawing."""
