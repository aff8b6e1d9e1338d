"""Optimizers and learning rate schedules."""

from eagerjit.optim import lr_scheduler
from eagerjit.optim.algorithms import SGD, Adagrad, Adam, AdamW, RMSprop
from eagerjit.optim.optimizer import Optimizer

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
