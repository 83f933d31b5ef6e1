"""Test cases for each layer and loss: constructor arguments, inputs, and different values for its attributes."""

import numpy as np
from random_arrays import random_array

import karez as kz
from karez import nn

ROWS, OTHER, IMAGE, TIME, LINE = (
    random_array(4, 6),
    random_array(4, 6, seed=1),
    random_array(2, 4, 7, 6),
    random_array(5, 2, 6),
    random_array(2, 4, 10),
)
UNIT, SIGNS, CLASSES = 1 / (1 + np.exp(-ROWS)), np.sign(OTHER), np.array([0, 5, 2, 2])
ENCODER_LAYER = lambda: nn.TransformerEncoderLayer(6, 2, 8, 0.0)
DECODER_LAYER = lambda: nn.TransformerDecoderLayer(6, 2, 8, 0.0)
REDUCTION = {"reduction": "sum"}
CONV = {
    "in_channels": 3,
    "out_channels": 8,
    "kernel_size": 2,
    "stride": 2,
    "padding": 1,
    "dilation": 2,
    "groups": 2,
    "bias": False,
    "padding_mode": "circular",
}
NORM = {"num_features": 3, "eps": 0.5, "momentum": 0.5, "affine": False, "track_running_stats": True}
STEPS = {
    "input_size": 4,
    "hidden_size": 4,
    "num_layers": 2,
    "bias": False,
    "batch_first": True,
    "dropout": 0.5,
    "bidirectional": True,
    "proj_size": 2,
    "nonlinearity": "relu",
}
LAYER = {
    "d_model": 8,
    "nhead": 3,
    "dim_feedforward": 9,
    "dropout": 0.5,
    "activation": "gelu",
    "layer_norm_eps": 0.5,
    "batch_first": True,
    "norm_first": True,
    "bias": False,
}
MAX = {"kernel_size": 2, "stride": 1, "padding": 0, "dilation": 2, "return_indices": True, "ceil_mode": True}
MEAN = {"kernel_size": 2, "stride": 1, "padding": 0, "ceil_mode": True, "count_include_pad": False}


# For each class: constructor arguments, inputs, and a different value for each argument and attribute in PyTorch.
TABLE = {
    "Linear": ({"in_features": 6, "out_features": 3}, [ROWS], {"in_features": 5, "out_features": 4, "bias": False}),
    "Conv1d": ({"in_channels": 4, "out_channels": 6, "kernel_size": 3}, [LINE], CONV),
    "Conv2d": ({"in_channels": 4, "out_channels": 6, "kernel_size": 3}, [IMAGE], CONV),
    "ConvTranspose1d": (
        {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "stride": 2},
        [LINE],
        CONV | {"stride": 3, "output_padding": 1},
    ),
    "ConvTranspose2d": (
        {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "stride": 2},
        [IMAGE],
        CONV | {"stride": 3, "output_padding": 1},
    ),
    "Embedding": (
        {"num_embeddings": 6, "embedding_dim": 3},
        [CLASSES],
        {
            "num_embeddings": 7,
            "embedding_dim": 4,
            "padding_idx": 2,
            "max_norm": 1.0,
            "norm_type": 1.0,
            "scale_grad_by_freq": True,
            "sparse": True,
        },
    ),
    "Bilinear": (
        {"in1_features": 6, "in2_features": 6, "out_features": 3},
        [ROWS, OTHER],
        {"in1_features": 5, "in2_features": 5, "out_features": 4, "bias": False},
    ),
    "PReLU": ({}, [ROWS], {"num_parameters": 6, "init": 0.5}),
    "LayerNorm": (
        {"normalized_shape": 6},
        [ROWS],
        {"normalized_shape": (4, 6), "eps": 0.5, "elementwise_affine": False, "bias": False},
    ),
    "RMSNorm": ({"normalized_shape": 6}, [ROWS], {"normalized_shape": (4, 6), "eps": 0.5, "elementwise_affine": False}),
    "BatchNorm1d": ({"num_features": 4}, [LINE], NORM),
    "BatchNorm2d": ({"num_features": 4}, [IMAGE], NORM),
    "BatchNorm3d": ({"num_features": 4}, [random_array(2, 4, 3, 2, 2)], NORM),
    "GroupNorm": (
        {"num_groups": 2, "num_channels": 4},
        [IMAGE],
        {"num_groups": 4, "num_channels": 8, "eps": 0.5, "affine": False},
    ),
    "InstanceNorm1d": ({"num_features": 4}, [LINE], NORM | {"affine": True}),
    "InstanceNorm2d": ({"num_features": 4}, [IMAGE], NORM | {"affine": True}),
    "LSTM": ({"input_size": 6, "hidden_size": 3}, [TIME], STEPS),
    "GRU": ({"input_size": 6, "hidden_size": 3}, [TIME], STEPS),
    "RNN": ({"input_size": 6, "hidden_size": 3}, [TIME], STEPS),
    "MultiHeadAttention": (
        {"width": 8, "heads": 2, "rotary": True},
        [random_array(5, 2, 8)],
        {
            "width": 6,
            "heads": 4,
            "kv_heads": 1,
            "is_causal": True,
            "rotary": False,
            "rotary_base": 10.0,
            "dropout": 0.5,
            "bias": False,
        },
    ),
    "MultiheadAttention": (
        {"embed_dim": 6, "num_heads": 2},
        [TIME] * 3,
        {
            "embed_dim": 8,
            "num_heads": 3,
            "dropout": 0.5,
            "bias": False,
            "add_bias_kv": True,
            "add_zero_attn": True,
            "kdim": 4,
            "vdim": 4,
            "batch_first": True,
        },
    ),
    "TransformerEncoderLayer": ({"d_model": 6, "nhead": 2, "dim_feedforward": 8, "dropout": 0.0}, [TIME], LAYER),
    "TransformerDecoderLayer": ({"d_model": 6, "nhead": 2, "dim_feedforward": 8, "dropout": 0.0}, [TIME, TIME], LAYER),
    "TransformerEncoder": (
        {"encoder_layer": ENCODER_LAYER, "num_layers": 2},
        [TIME],
        {"num_layers": 1, "norm": nn.Tanh(), "enable_nested_tensor": False, "mask_check": False},
    ),
    "TransformerDecoder": (
        {"decoder_layer": DECODER_LAYER, "num_layers": 2},
        [TIME, TIME],
        {"num_layers": 1, "norm": nn.Tanh()},
    ),
    "Transformer": (
        {
            "d_model": 6,
            "nhead": 2,
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            "dim_feedforward": 8,
            "dropout": 0.0,
        },
        [TIME, TIME],
        LAYER | {"num_encoder_layers": 2, "num_decoder_layers": 2},
    ),
    "Dropout": ({}, [ROWS], {"p": 0.25}),
    "Dropout2d": ({}, [IMAGE], {"p": 0.25}),
    "MaxPool1d": ({"kernel_size": 3, "stride": 2, "padding": 1}, [LINE], MAX),
    "MaxPool2d": ({"kernel_size": 3, "stride": 2, "padding": 1}, [IMAGE], MAX),
    "AvgPool1d": ({"kernel_size": 3, "stride": 2, "padding": 1}, [LINE], MEAN),
    "AvgPool2d": ({"kernel_size": 3, "stride": 2, "padding": 1}, [IMAGE], MEAN | {"divisor_override": 5}),
    "AdaptiveAvgPool1d": ({"output_size": 4}, [LINE], {"output_size": 3}),
    "AdaptiveAvgPool2d": ({"output_size": 4}, [IMAGE], {"output_size": (3, 4)}),
    "Flatten": ({}, [IMAGE], {"start_dim": 2, "end_dim": 2}),
    "Unflatten": ({"dim": 1, "unflattened_size": (2, 2)}, [random_array(4, 4)], {"dim": 0, "unflattened_size": (1, 4)}),
    "Upsample": (
        {"scale_factor": 1.7, "mode": "bilinear"},
        [IMAGE],
        {
            "size": (9, 9),
            "scale_factor": 3.0,
            "mode": "nearest",
            "align_corners": True,
            "recompute_scale_factor": True,
            "antialias": True,
        },
    ),
    "ConstantPad2d": ({"padding": 1, "value": 3.0}, [IMAGE], {"padding": (1, 2, 0, 1), "value": 4.0}),
    "ZeroPad2d": ({"padding": 1}, [IMAGE], {"padding": (1, 2, 0, 1)}),
    "Softmax": ({"dim": 1}, [ROWS], {"dim": 0}),
    "LogSoftmax": ({"dim": 1}, [ROWS], {"dim": 0}),
    "Softmin": ({"dim": 1}, [ROWS], {"dim": 0, "dtype": kz.float64}),
    "GELU": ({}, [ROWS], {"approximate": "tanh"}),
    "GLU": ({}, [ROWS], {"dim": 0}),
    "LeakyReLU": ({}, [ROWS], {"negative_slope": 0.5}),
    "ELU": ({}, [ROWS], {"alpha": 0.5}),
    "CELU": ({}, [ROWS], {"alpha": 0.5}),
    "Hardtanh": ({}, [ROWS], {"min_val": -0.5, "max_val": 0.5}),
    "Hardshrink": ({}, [ROWS], {"lambd": 0.2}),
    "Softshrink": ({}, [ROWS], {"lambd": 0.2}),
    "Softplus": ({}, [ROWS], {"beta": 2.0, "threshold": 0.1}),
    "Threshold": ({"threshold": 0.1, "value": 2.0}, [ROWS], {"threshold": 0.5, "value": 3.0}),
    **{
        name: ({}, [ROWS], {})
        for name in (
            "Hardsigmoid Hardswish Identity LogSigmoid Mish ReLU ReLU6 SELU Sigmoid SiLU Softsign Tanh Tanhshrink"
        ).split()
    },
    "CosineSimilarity": ({}, [ROWS, OTHER], {"dim": 0, "eps": 9.0}),
    "PairwiseDistance": ({}, [ROWS, OTHER], {"p": 1.0, "eps": 0.5, "keepdim": True}),
    "CrossEntropyLoss": (
        {},
        [ROWS, CLASSES],
        REDUCTION | {"weight": np.arange(6, dtype=np.float32), "ignore_index": 2, "label_smoothing": 0.1},
    ),
    "NLLLoss": ({}, [ROWS, CLASSES], REDUCTION | {"weight": np.arange(6, dtype=np.float32), "ignore_index": 2}),
    "MSELoss": ({}, [ROWS, OTHER], REDUCTION),
    "L1Loss": ({}, [ROWS, OTHER], REDUCTION),
    "SmoothL1Loss": ({}, [ROWS, OTHER], REDUCTION | {"beta": 0.3}),
    "HuberLoss": ({}, [ROWS, OTHER], REDUCTION | {"delta": 0.3}),
    "BCELoss": ({}, [UNIT, UNIT], REDUCTION | {"weight": 2 * UNIT}),
    "BCEWithLogitsLoss": (
        {},
        [ROWS, UNIT],
        REDUCTION | {"weight": 2 * UNIT, "pos_weight": np.arange(6, dtype=np.float32)},
    ),
    "KLDivLoss": ({}, [np.log(UNIT), UNIT], {"reduction": "batchmean", "log_target": True}),
    "PoissonNLLLoss": ({}, [UNIT, 5 * UNIT], REDUCTION | {"log_input": False, "full": True, "eps": 0.5}),
    "GaussianNLLLoss": ({}, [ROWS, OTHER, UNIT], REDUCTION | {"full": True, "eps": 0.7}),
    "MarginRankingLoss": ({}, [ROWS, OTHER, SIGNS], REDUCTION | {"margin": 0.5}),
    "HingeEmbeddingLoss": ({}, [ROWS, SIGNS], REDUCTION | {"margin": 0.5}),
    "SoftMarginLoss": ({}, [ROWS, SIGNS], REDUCTION),
    "CosineEmbeddingLoss": ({}, [ROWS, OTHER, SIGNS[:, 0]], REDUCTION | {"margin": 0.5}),
    "TripletMarginLoss": ({}, [ROWS, OTHER, UNIT], REDUCTION | {"margin": 0.5, "p": 1.0, "eps": 0.5, "swap": True}),
}
NO_EFFECT = {  # attributes whose new value does not change the output
    ("InstanceNorm1d", "momentum"),
    ("InstanceNorm2d", "momentum"),
    ("BatchNorm1d", "momentum"),
    ("BatchNorm2d", "momentum"),
    ("BatchNorm3d", "momentum"),
    ("GRU", "dropout"),
    ("LSTM", "dropout"),
    ("RNN", "dropout"),
    ("TransformerEncoder", "enable_nested_tensor"),
    ("TransformerEncoder", "mask_check"),
    ("PoissonNLLLoss", "eps"),
    ("Embedding", "padding_idx"),
}


# Values that are invalid in combination with the other arguments: the call or the constructor fails.
BAD_IN_BOTH = {("Upsample", "size"), ("Upsample", "antialias")}
