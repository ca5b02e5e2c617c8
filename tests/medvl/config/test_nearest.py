from medvl.config.nearest import nearest, or_what


def test_near_names_come_best_first_and_at_most_three():
    known = ["monitor", "monitors", "mode", "patience", "month", "monitored"]
    assert nearest("monitr", known)[0] == "monitor"
    assert len(nearest("monitr", known)) == 3


def test_nothing_is_near_a_stranger():
    assert nearest("zzz", ["lora", "model"]) == []


def test_the_sentence_offers_near_names_or_all_names_or_nothing():
    assert or_what("lorra", ["lora", "model"]) == "; did you mean lora?"
    assert or_what("zzz", ["model", "lora"]) == "; known: lora, model"
    assert or_what("zzz", []) == ""
