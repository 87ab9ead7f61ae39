"""Trains nanoGPT's shakespeare_char recipe in plain PyTorch on the CPU. Measurements compare train_gpt with it.

The model, the batches' sizes and the optimizer are those of nanoGPT's CPU line (README.md there). PyTorch draws the
weights, so its curve is another draw of the same recipe. It prints one JSON object: seconds of each step (without
validation), and the loss over the whole validation text.
"""

import argparse
import json
import math
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.attention_output = nn.Linear(width, width, bias=False)
        self.norm_2 = nn.LayerNorm(width, bias=False)
        self.hidden = nn.Linear(width, 4 * width, bias=False)
        self.mlp_output = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, places, width = x.shape
        parts = self.qkv(self.norm_1(x)).view(batch, places, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_output(attended.transpose(1, 2).reshape(batch, places, width))
        return x + self.mlp_output(functional.gelu(self.hidden(self.norm_2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, layers, heads, width, context):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            residual = name.endswith(("attention_output.weight", "mlp_output.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        scores = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def learning_rate(step, steps):
    if step < 100:
        return 1e-3 * (step + 1) / 101
    return 1e-4 + 0.5 * (1 + math.cos(math.pi * min((step - 100) / (steps - 100), 1))) * 9e-4


@torch.no_grad()
def validation_loss(model, text, context):
    windows = (len(text) - 1) // context
    total = 0.0
    for first in range(0, windows, 64):
        count = min(64, windows - first)
        begin = first * context
        tokens = text[begin : begin + count * context].view(count, context)
        targets = text[begin + 1 : begin + 1 + count * context].view(count, context)
        total += model(tokens, targets).item() * count
    return total / windows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1337)
    letters = open(options.data, "rb").read()
    numbers = {byte: number for number, byte in enumerate(sorted(set(letters)))}
    text = torch.tensor([numbers[byte] for byte in letters])
    split = len(letters) * 9 // 10
    training, validation = text[:split], text[split:]
    model = Gpt(len(numbers), options.layers, options.heads, options.width, options.context)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))
    seconds, losses = [], []
    for step in range(options.steps):
        start = time.perf_counter()
        offsets = torch.randint(len(training) - options.context, (options.batch,))
        tokens = torch.stack([training[o : o + options.context] for o in offsets])
        targets = torch.stack([training[o + 1 : o + 1 + options.context] for o in offsets])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options.steps)
        loss = model(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    report = {
        "torch": torch.__version__,
        "threads": options.threads,
        "steps": options.steps,
        "step_seconds": sorted(seconds)[len(seconds) // 2],
        "total_seconds": sum(seconds),
        "last_loss": losses[-1],
    }
    if options.steps >= 100:
        report["validation_loss"] = validation_loss(model, validation, options.context)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
