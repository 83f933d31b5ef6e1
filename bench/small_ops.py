"""What does a call cost? Compares 50 x Linear(16) + ReLU on 16 rows, forward and backward with every gradient as an
output, with PyTorch eager."""

from train_step import run_benchmark

if __name__ == "__main__":
    run_benchmark("small_ops", ["small"])
