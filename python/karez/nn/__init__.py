"""Modules and the usual layers; a model is a class of them, and no word in it is about devices."""

from . import functional as functional, init as init, utils as utils
from .layers import (
    BatchNorm1d as BatchNorm1d, BatchNorm2d as BatchNorm2d, BatchNorm3d as BatchNorm3d, Bilinear as Bilinear, Conv1d as Conv1d, Conv2d as Conv2d,
    ConvTranspose1d as ConvTranspose1d, ConvTranspose2d as ConvTranspose2d, Dropout as Dropout, Dropout2d as Dropout2d, Embedding as Embedding,
    GroupNorm as GroupNorm, InstanceNorm1d as InstanceNorm1d, InstanceNorm2d as InstanceNorm2d, LayerNorm as LayerNorm, Linear as Linear,
    MultiHeadAttention as MultiHeadAttention, PReLU as PReLU, RMSNorm as RMSNorm,
)
from .module import Module as Module, ModuleDict as ModuleDict, ModuleList as ModuleList, Sequential as Sequential
from .parameter import Buffer as Buffer, Parameter as Parameter
from .recurrent import GRU as GRU, LSTM as LSTM, RNN as RNN
from .function_modules import (
    AdaptiveAvgPool1d as AdaptiveAvgPool1d, AdaptiveAvgPool2d as AdaptiveAvgPool2d, AvgPool1d as AvgPool1d, AvgPool2d as AvgPool2d, BCELoss as BCELoss, BCEWithLogitsLoss as
    BCEWithLogitsLoss, CELU as CELU, ConstantPad2d as ConstantPad2d, CosineEmbeddingLoss as CosineEmbeddingLoss, CosineSimilarity as
    CosineSimilarity, CrossEntropyLoss as CrossEntropyLoss, ELU as ELU, Flatten as Flatten, GaussianNLLLoss as GaussianNLLLoss, GELU as GELU, GLU
    as GLU, Hardshrink as Hardshrink, Hardsigmoid as Hardsigmoid, Hardswish as Hardswish, Hardtanh as Hardtanh, HingeEmbeddingLoss as
    HingeEmbeddingLoss, HuberLoss as HuberLoss, Identity as Identity, KLDivLoss as KLDivLoss, L1Loss as L1Loss, LeakyReLU as LeakyReLU, LogSigmoid
    as LogSigmoid, LogSoftmax as LogSoftmax, MarginRankingLoss as MarginRankingLoss, MaxPool1d as MaxPool1d, MaxPool2d as MaxPool2d, Mish as Mish,
    MSELoss as MSELoss, NLLLoss as NLLLoss, PairwiseDistance as PairwiseDistance, PoissonNLLLoss as PoissonNLLLoss, ReLU as ReLU, ReLU6 as ReLU6,
    SELU as SELU, Sigmoid as Sigmoid, SiLU as SiLU, SmoothL1Loss as SmoothL1Loss, SoftMarginLoss as SoftMarginLoss, Softmax as Softmax, Softmin as
    Softmin, Softplus as Softplus, Softshrink as Softshrink, Softsign as Softsign, Tanh as Tanh, Tanhshrink as Tanhshrink, Threshold as Threshold,
    TripletMarginLoss as TripletMarginLoss, Unflatten as Unflatten, Upsample as Upsample, ZeroPad2d as ZeroPad2d,
)
from .transformers import (
    MultiheadAttention as MultiheadAttention, Transformer as Transformer, TransformerDecoder as TransformerDecoder, TransformerDecoderLayer as
    TransformerDecoderLayer, TransformerEncoder as TransformerEncoder, TransformerEncoderLayer as TransformerEncoderLayer,
)
