"""Lightning DataModules: they wire loaders and nothing else."""
