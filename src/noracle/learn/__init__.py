"""Training from labels that say what an item is *not* (extra ``learn``: torch).

transition.py              P(ruled out | true class), and where it came from
labels.py                  ruled-out labels drawn in every way that is studied
context.py, losses.py, risks.py   what a loss knows; one table of losses; risks of a batch
batches.py, settings.py, run.py, checkpoint.py, loop.py, distributed.py   one training loop
models.py, augment.py      models, and views of images
consistency.py             a modern recipe: views of an item must agree
"""
