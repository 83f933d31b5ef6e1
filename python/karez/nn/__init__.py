"""Modules and the usual layers; a model is a class of them, and no word in it is about devices."""

from . import functional, init, utils
from .layers import (
    AvgPool2d, BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, CrossEntropyLoss, Dropout, Embedding, Flatten, GELU, GroupNorm, Identity,
    LayerNorm, Linear, MaxPool2d, MSELoss, MultiHeadAttention, ReLU, RMSNorm, Sigmoid, SiLU, Softmax, Tanh,
)
from .module import Module, ModuleDict, ModuleList, Sequential
from .parameter import Buffer, Parameter
