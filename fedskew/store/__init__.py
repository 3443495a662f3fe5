"""One directory per run: config, partition, metrics, checkpoints; atomic, resumable, one writer at a time.

`run.RunStore` writes, `reader.RunReader` reads without a lock or torch, `checkpoint.load` reads a model.
"""
