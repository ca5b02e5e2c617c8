import logging
import subprocess
import sys
import warnings

from medvl.training.quiet import QUIET_LOGGERS, silence_libraries


def test_tips_of_libraries_are_dropped_and_their_errors_kept(caplog):
    silence_libraries()
    for name in QUIET_LOGGERS:
        logger = logging.getLogger(name)
        logger.warning("a tip of %s", name)
        logger.error("an error of %s", name)
    assert [record.message for record in caplog.records] == [f"an error of {name}" for name in QUIET_LOGGERS]


def test_it_still_holds_when_the_library_is_imported_later():
    code = (
        "from medvl.training.quiet import silence_libraries\n"
        "silence_libraries()\n"
        "import peft, pytorch_lightning, logging\n"
        "logging.getLogger('pytorch_lightning.utilities.rank_zero').warning('a tip')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_a_warning_that_concerns_the_run_is_not_dropped(recwarn):
    silence_libraries()
    warnings.warn("your data are odd", stacklevel=1)
    assert [str(warning.message) for warning in recwarn] == ["your data are odd"]
