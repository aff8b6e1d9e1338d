"""Word embeddings by skip-grams with negative samples, from documentation strings of the standard library."""

import argparse
import re
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from common import arguments, draw_weights, report
from torch.utils.data import DataLoader, Dataset

WINDOW, NEGATIVES = 2, 5


class SkipGrams(Dataset):
    def __init__(self, words, vocabulary, random):
        self.ids = [vocabulary[word] for word in words if word in vocabulary]
        self.random, self.size = random, len(vocabulary)
        self.pairs = [
            (center, self.ids[other])
            for at, center in enumerate(self.ids)
            for other in range(max(0, at - WINDOW), min(len(self.ids), at + WINDOW + 1))
            if other != at
        ]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, idx):
        center, context = self.pairs[idx]
        return center, context, self.random.integers(0, self.size, NEGATIVES)


class Word2Vec(nn.Module):
    def __init__(self, vocab_size, emb_dim=32):
        super().__init__()
        self.target = nn.Embedding(vocab_size, emb_dim)
        self.context = nn.Embedding(vocab_size, emb_dim)

    def forward(self, center, context, negatives):
        v = self.target(center)
        positive = (v * self.context(context)).sum(1)
        negative = torch.bmm(self.context(negatives), v.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(positive) + F.logsigmoid(-negative).sum(1)).mean()


def main():
    args = arguments(__doc__, 300)
    words = re.findall(r"[a-z]+", (argparse.__doc__ + Counter.__doc__ + re.__doc__).lower())
    vocabulary = {word: k for k, (word, _) in enumerate(Counter(words).most_common(200))}
    loader = DataLoader(SkipGrams(words, vocabulary, np.random.default_rng(6)), batch_size=64, drop_last=True)
    model = draw_weights(Word2Vec(len(vocabulary)))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    step = 0
    while step < args.steps:
        for center, context, negatives in loader:
            optimizer.zero_grad()
            loss = model(center, context, negatives)
            loss.backward()
            optimizer.step()
            report(step, loss.item())
            step += 1
            if step == args.steps:
                break
    vectors = F.normalize(model.target.weight.detach(), dim=1)
    names = list(vocabulary)
    for word in names[:5]:
        _, nearest = (vectors @ vectors[vocabulary[word]]).topk(4)
        print(f"{word}: {', '.join(names[i] for i in nearest.tolist()[1:])}")


if __name__ == "__main__":
    main()
