"""Train a small character-level GPT, first eagerly and then jitted, and compare the two runs.

The text is the Python standard library's own source, which every Python has; --text PATH takes other text.
The whole training step (zero_grad, forward, cross entropy, backward, AdamW) is one function, and the only difference
between the two runs is `@torch.jit` on it.

    python examples/train_gpt.py
    python examples/train_gpt.py --steps 100 --text book.txt
    python examples/train_gpt.py --no-jit
    python examples/train_gpt.py --resume        # goes on, exactly, from the last run's checkpoint
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import sysconfig
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from tqdm import tqdm

import eagerjit as torch
from eagerjit import nn
from eagerjit.cuda.present import missing
from eagerjit.nn import functional as F

CONTEXT = 128
BATCH = 8
LAYERS, HEADS, WIDTH = 4, 4, 256
LEARNING_RATE, BETAS, WARMUP = 2e-3, (0.9, 0.98), 60
SEED = 1234


class Attention(nn.Module):
    """Causal self-attention with several heads and rotary positions."""

    def __init__(self) -> None:
        super().__init__()
        self.project_in = nn.Linear(WIDTH, 3 * WIDTH)
        self.project_out = nn.Linear(WIDTH, WIDTH)
        half = WIDTH // HEADS // 2
        angles = torch.arange(CONTEXT)[:, None] * torch.exp(-math.log(1000.0) * torch.arange(half) / half)
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())

    def rotate(self, x):
        """Turn pairs of features, (batch, head, time, feature), by angles that grow with the position."""
        time = x.shape[2]
        cosines, sines = self.cosines[:time], self.sines[:time]
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cosines - b * sines, a * sines + b * cosines], dim=-1)

    def forward(self, x):
        batch, time, width = x.shape
        query, key, value = (
            part.view(batch, time, HEADS, width // HEADS).transpose(1, 2)
            for part in self.project_in(x).split(width, dim=2)
        )
        mixed = F.scaled_dot_product_attention(self.rotate(query), self.rotate(key), value, is_causal=True)
        return self.project_out(mixed.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    """Attention, then a feed-forward network, each normalised before and added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.feed_norm = nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed(self.feed_norm(x))


class GPT(nn.Module):
    """Character codes, (batch, time), to the logits of the next character, (batch, time, vocabulary)."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def read_text(path: Path) -> str:
    """Return the text of a file, or of all Python files right inside a folder; only printable ASCII is kept."""
    files = [path] if path.is_file() else sorted(path.glob("*.py"))
    text = "".join(file.read_text(encoding="utf-8", errors="ignore") for file in files)
    return "".join(character for character in text if character == "\n" or " " <= character <= "~")


def learning_rate(step: int) -> float:
    """Return the factor for this step: a linear start, then the inverse square root; it knows no last step."""
    return min((step + 1) / WARMUP, math.sqrt(WARMUP / (step + 1)))


class Batches:
    """Random windows of the text; the windows of a step depend on the seed and the step alone."""

    def __init__(self, text: str, device: str) -> None:
        self.characters = sorted(set(text))
        code = {character: index for index, character in enumerate(self.characters)}
        self.tokens = torch.tensor(np.array([code[character] for character in text]), device=device)
        self.window = torch.arange(CONTEXT + 1, device=device)

    def at(self, step: int):
        """Return the step's inputs and targets, both (BATCH, CONTEXT)."""
        generator = torch.Generator().manual_seed(SEED * 1_000_003 + step)
        starts = torch.randint(0, len(self.tokens) - CONTEXT, (BATCH, 1), generator=generator)
        windows = self.tokens[starts.to(self.tokens.device) + self.window]
        return windows[:, :-1], windows[:, 1:]

    def encode(self, text: str):
        return torch.tensor([[self.characters.index(character) for character in text]], device=self.tokens.device)

    def decode(self, codes: list[int]) -> str:
        return "".join(self.characters[code] for code in codes)


class Run:
    """One training run: a model, its optimizer, and the record of what each step lost and took."""

    def __init__(self, name: str, batches: Batches, device: str, checkpoint: Path) -> None:
        self.name, self.batches, self.checkpoint = name, batches, checkpoint
        torch.manual_seed(SEED)
        self.model = GPT(len(batches.characters)).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=0.1)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, learning_rate)
        self.losses: list[float] = []
        self.seconds: list[float] = []
        model, optimizer = self.model, self.optimizer

        @torch.jit
        def training_step(inputs, targets):
            optimizer.zero_grad()
            logits = model(inputs)
            loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))
            loss.backward()
            optimizer.step()
            return loss

        # Without the decorator it is the same function, run line by line.
        self.training_step = training_step if name == "jitted" else training_step.__wrapped__

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "losses": self.losses,
            "seconds": self.seconds,
        }
        torch.save(state, self.checkpoint)

    def resume(self) -> None:
        """Take up the run where its checkpoint left it."""
        state = torch.load(self.checkpoint)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.losses, self.seconds = state["losses"], state["seconds"]

    def train(self, until: int) -> None:
        with tqdm(total=until, initial=len(self.losses), desc=self.name, unit="step", dynamic_ncols=True) as bar:
            for step in range(len(self.losses), until):
                inputs, targets = self.batches.at(step)
                start = time.perf_counter()
                self.losses.append(self.training_step(inputs, targets).item())
                self.seconds.append(time.perf_counter() - start)
                self.scheduler.step()
                took = statistics.median(self.seconds[-20:])
                bar.set_postfix_str(
                    f"loss {self.losses[-1]:.3f}, {took * 1e3:.0f} ms/step, {BATCH * CONTEXT / took:,.0f} tokens/s",
                    refresh=False,
                )
                bar.update()

    @property
    def step_seconds(self) -> float:
        """The usual time of a step: the median, which the first steps do not move."""
        return statistics.median(self.seconds)

    @property
    def compile_seconds(self) -> float:
        """What the first steps took beyond the usual."""
        return sum(max(0.0, seconds - self.step_seconds) for seconds in self.seconds[:3])


def sample(model: GPT, batches: Batches, prompt: str, length: int, temperature: float = 0.7) -> str:
    """Return the prompt and what the model writes after it."""
    generator = torch.Generator().manual_seed(SEED)
    tokens = batches.encode(prompt)
    model.eval()
    with torch.no_grad():
        for _ in range(length):
            logits = model(tokens[:, -CONTEXT:])[:, -1]
            probabilities = F.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(probabilities.to("cpu"), 1, generator=generator)
            tokens = torch.cat([tokens, chosen.to(tokens.device)], dim=1)
    model.train()
    return batches.decode(tokens[0].tolist())


def compare(eager: Run, jitted: Run) -> None:
    """Say whether the two runs lost the same, step by step, and which was faster."""
    differing = [step for step, (a, b) in enumerate(zip(eager.losses, jitted.losses, strict=True)) if a != b]
    parameters = zip(eager.model.parameters(), jitted.model.parameters(), strict=True)
    same_parameters = all(torch.equal(a, b) for a, b in parameters)
    if differing or not same_parameters:
        where = f"first at step {differing[0]}" if differing else "in the parameters only"
        print(f"the runs DIFFER: {len(differing)} of {len(eager.losses)} losses, {where}")
    else:
        print(f"all {len(eager.losses)} losses and every parameter after the last step agree bit for bit")
    print(f"eager  {eager.step_seconds * 1e3:6.1f} ms/step")
    print(f"jitted {jitted.step_seconds * 1e3:6.1f} ms/step, compiled in {jitted.compile_seconds:.2f} s")
    print(f"speed-up {eager.step_seconds / jitted.step_seconds:.2f}x")


def plot(runs: list[Run], path: Path) -> None:
    """Draw the losses by step and by time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (by_step, by_time) = pyplot.subplots(1, 2, figsize=(11, 4), sharey=True)
    for run, style in zip(runs, ("-", "--"), strict=False):
        label = f"{run.name}, {run.step_seconds * 1e3:.0f} ms/step"
        by_step.plot(run.losses, style, label=label)
        by_time.plot(np.cumsum(run.seconds), run.losses, style, label=label)
    by_step.set(xlabel="step", ylabel="cross entropy (nats per character)", title="by step")
    by_time.set(xlabel="seconds in training steps", title="by time")
    for axes in (by_step, by_time):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500, help="training steps of a run (default: %(default)s)")
    parser.add_argument("--text", type=Path, help="a text file, or a folder of Python files, to learn from")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--no-jit", action="store_true", help="run eagerly only")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoints in --out")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for what is written")
    options = parser.parse_args()
    if options.device.startswith("cuda") and (problem := missing()) is not None:
        sys.exit(f"--device {options.device}: there is no GPU that tensors can lie on: {problem}")

    source = options.text or Path(sysconfig.get_path("stdlib"))
    if not source.exists():
        sys.exit(f"--text {source}: no such file or folder")
    text = read_text(source)
    if len(text) <= CONTEXT + 1:
        sys.exit(f"--text {source}: {len(text)} characters are too few; a window takes {CONTEXT + 1}")
    batches = Batches(text, options.device)
    print(f"{len(text):,} characters, {len(batches.characters)} different ones")
    options.out.mkdir(parents=True, exist_ok=True)

    runs = []
    for name in ["eager"] if options.no_jit else ["eager", "jitted"]:
        run = Run(name, batches, options.device, options.out / f"train_gpt_{name}.pt")
        if options.resume:
            run.resume()
        try:
            run.train(options.steps)
        finally:
            run.save()
        runs.append(run)

    print()
    if not options.no_jit:
        compare(*runs)
        report = options.out / "train_gpt_explain.txt"
        report.write_text(str(runs[-1].training_step.explain(*batches.at(0))))
        print(f"what was compiled: {report}")
    if find_spec("matplotlib") is not None:
        plot(runs, options.out / "train_gpt.png")
        print(f"losses drawn: {options.out / 'train_gpt.png'}\n")
    else:
        print("matplotlib is not installed: the losses are not drawn\n")
    print(sample(runs[-1].model, batches, prompt="def ", length=400))


if __name__ == "__main__":
    main()
