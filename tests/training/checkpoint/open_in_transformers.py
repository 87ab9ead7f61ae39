"""Opens what train_gpt saves in HF's transformers, as it is: open_in_transformers.py FOLDER_OF_PROGRAMS.

Each kind of model is trained for some steps and saved. AutoModelForCausalLM must open the folder. Its loss over the
validation text must be the loss that train_gpt prints for the same state. AutoTokenizer must encode the text to
train_gpt's tokens and back.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

STEPS = 100
CONTEXT = 32
# The tolerance of the loss allows for sums of float32 in another order.
TOLERANCE = 2e-6
KINDS = {
    "nanoGPT's: no biases, exact GELU": [],
    "GPT-2's: biases, tanh GELU": ["--bias", "--tanh-gelu"],
    "several ranks": ["--dp", "2", "--tp", "2", "--zero", "1"],
}


def text():
    """Returns text with more kinds of bytes than ASCII has. They follow each other by a rule, so that there is
    something to learn."""
    words = ["the quick brown fox", "jumps \\ over", '"the" lazy dog,', "größer als\tzuvor\n", "žluťoučký kůň; "]
    state, parts = 1, []
    for _ in range(1500):
        state = (state * 1103515245 + 12345) % 2**31
        parts.append(words[(state >> 16) % len(words)])
    return " ".join(parts).encode("utf-8")


def run(programs, data, folder, arguments):
    command = [programs / "train_gpt", "--preset", "tiny", "--context", str(CONTEXT), "--data", data]
    command += ["--checkpoint", folder, "--sample", "0", "--no-final-validation", *arguments]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def own_loss(programs, data, folder, arguments):
    """Returns the loss of the checkpoint after STEPS steps, over all windows of the validation text."""
    log = folder / "log"
    arguments = [*arguments, "--resume", "--steps", str(STEPS + 1), "--decay-steps", str(STEPS)]
    run(programs, data, folder, [*arguments, "--validate-every", "1", "--validation-windows", "0", "--jsonl", log])
    return json.loads(log.read_text().splitlines()[-1])["validation_loss"]


def their_loss(checkpoint, tokens):
    model = AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    windows = [tokens[begin : begin + CONTEXT + 1] for begin in range(0, len(tokens) - CONTEXT, CONTEXT)]
    batch = torch.tensor(windows)
    with torch.no_grad():
        scores = model(input_ids=batch[:, :-1]).logits.double()
    return torch.nn.functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten()).item()


def check(programs, kind, arguments):
    with tempfile.TemporaryDirectory() as name:
        folder, whole = Path(name), text()
        data = folder / "text"
        data.write_bytes(whole)
        run(programs, data, folder, [*arguments, "--steps", str(STEPS)])
        checkpoint = folder / f"step-{STEPS:06}"
        letters = sorted(set(whole))
        tokens = [letters.index(letter) for letter in whole]
        tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        encoded = tokenizer(whole.decode("utf-8"), add_special_tokens=False)["input_ids"]
        assert encoded == tokens, f"{kind}: the tokenizer's tokens differ"
        assert tokenizer.decode(encoded) == whole.decode("utf-8"), f"{kind}: what the tokenizer decodes differs"
        theirs = their_loss(checkpoint, tokens[len(whole) * 9 // 10 :])
        ours = own_loss(programs, data, folder, arguments)
        difference = abs(theirs - ours) / ours
        print(f"{kind}: loss {ours:.9f} here, {theirs:.9f} in transformers: {difference:.1e} apart")
        assert difference <= TOLERANCE, kind


def main():
    for kind, arguments in KINDS.items():
        check(Path(sys.argv[1]).resolve(), kind, arguments)


if __name__ == "__main__":
    main()
