"""Modules and the usual layers; a model is a class of them, and no word in it is about devices."""

from . import functional, init, utils
from .layers import (
    BatchNorm1d, BatchNorm2d, BatchNorm3d, Bilinear, Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, Dropout, Dropout2d, Embedding, GroupNorm,
    InstanceNorm1d, InstanceNorm2d, LayerNorm, Linear, MultiHeadAttention, PReLU, RMSNorm,
)
from .module import Module, ModuleDict, ModuleList, Sequential
from .parameter import Buffer, Parameter
from .recurrent import GRU, LSTM, RNN
from .simple import (
    AdaptiveAvgPool2d, AvgPool1d, AvgPool2d, BCELoss, BCEWithLogitsLoss, CELU, ConstantPad2d, CosineEmbeddingLoss, CosineSimilarity, CrossEntropyLoss,
    ELU, Flatten, GaussianNLLLoss, GELU, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, HingeEmbeddingLoss, HuberLoss, Identity, KLDivLoss, L1Loss,
    LeakyReLU, LogSigmoid, LogSoftmax, MarginRankingLoss, MaxPool1d, MaxPool2d, Mish, MSELoss, NLLLoss, PairwiseDistance, PoissonNLLLoss, ReLU, ReLU6, SELU,
    Sigmoid, SiLU, SmoothL1Loss, SoftMarginLoss, Softmax, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold, TripletMarginLoss, Unflatten,
    Upsample, ZeroPad2d,
)
