"""From items to training and question batches."""
