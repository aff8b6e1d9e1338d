"""A Transformer learns to translate sentences of a toy grammar into one with another word order."""

import math

import numpy as np
import torch
import torch.nn as nn
from common import arguments, draw_weights, report

PAD, BOS, EOS = 0, 1, 2
SUBJECTS, VERBS, OBJECTS = range(3, 11), range(11, 19), range(19, 27)
VOCABULARY, LENGTH, BATCH = 27, 11, 32


def sentences(random, count):
    """Pairs: adjectives* subject verb object -> subject object verb adjectives*, reversed."""
    sources, targets = [], []
    for _ in range(count):
        adjectives = list(random.choice(OBJECTS, random.integers(0, 5)))
        subject, verb, thing = random.choice(SUBJECTS), random.choice(VERBS), random.choice(OBJECTS)
        source = [*adjectives, subject, verb, thing]
        target = [BOS, subject, thing, verb, *adjectives[::-1], EOS]
        sources.append(source + [PAD] * (LENGTH - 2 - len(source)))
        targets.append(target + [PAD] * (LENGTH - len(target)))
    return torch.tensor(np.array(sources)), torch.tensor(np.array(targets))


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class Translator(nn.Module):
    def __init__(self, d_model=64):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, d_model, padding_idx=PAD)
        self.positions = PositionalEncoding(d_model)
        self.transformer = nn.Transformer(
            d_model, nhead=4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=128, dropout=0.0,
            batch_first=True,
        )  # fmt: skip
        self.head = nn.Linear(d_model, VOCABULARY)
        self.d_model = d_model

    def forward(self, source, target):
        scale = math.sqrt(self.d_model)
        src = self.positions(self.embedding(source) * scale)
        tgt = self.positions(self.embedding(target) * scale)
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        out = self.transformer(
            src, tgt, tgt_mask=mask,
            src_key_padding_mask=source == PAD, tgt_key_padding_mask=(target == PAD).float() * -1e9,
            memory_key_padding_mask=source == PAD,
        )  # fmt: skip
        return self.head(out)


def main():
    args = arguments(__doc__, 400)
    random = np.random.default_rng(3)
    model = draw_weights(Translator())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=max(args.steps, 20))
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.05)
    model.train()
    for step in range(args.steps):
        source, target = sentences(random, BATCH)
        logits = model(source, target[:, :-1])
        loss = criterion(logits.reshape(-1, VOCABULARY), target[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        report(step, loss.item())
    model.eval()
    with torch.inference_mode():
        source, target = sentences(random, 200)
        guesses = model(source, target[:, :-1]).argmax(-1)
        kept = target[:, 1:] != PAD
        print(f"{(guesses == target[:, 1:])[kept].float().mean().item():.1%} of the words right")


if __name__ == "__main__":
    main()
