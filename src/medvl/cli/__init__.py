"""The `medvl` command: everything that is not training or evaluating a model."""
