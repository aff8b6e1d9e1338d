"""A word-level LSTM language model with tied weights, truncated backpropagation and clipped gradients."""

import inspect
import math
import re
import textwrap

import torch
import torch.nn as nn
from common import arguments, draw_weights, report

BPTT, BATCH = 16, 8


class Dictionary:
    def __init__(self):
        self.word2idx, self.idx2word = {}, []

    def add_word(self, word):
        if word not in self.word2idx:
            self.idx2word.append(word)
            self.word2idx[word] = len(self.idx2word) - 1
        return self.word2idx[word]

    def __len__(self):
        return len(self.idx2word)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp=64, nhid=64, nlayers=2):
        super().__init__()
        self.drop = nn.Dropout(0.0)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=0.0)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight
        self.nhid, self.nlayers, self.ntoken = nhid, nlayers, ntoken

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return nn.functional.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        shape = self.nlayers, bsz, self.nhid
        return weight.new_zeros(shape), weight.new_zeros(shape)


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def main():
    args = arguments(__doc__, 200)
    words = re.findall(r"\w+|[^\w\s]", inspect.getsource(textwrap))[:4000]
    dictionary = Dictionary()
    data = batchify(torch.tensor([dictionary.add_word(word) for word in words]), BATCH)
    model = draw_weights(RNNModel(len(dictionary)))
    criterion = nn.NLLLoss()
    model.train()
    hidden = model.init_hidden(BATCH)
    lr, first = 5.0, 0
    for step in range(args.steps):
        seq_len = min(BPTT, len(data) - 1 - first)
        inputs = data[first : first + seq_len]
        targets = data[first + 1 : first + 1 + seq_len].view(-1)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(inputs, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        report(step, loss.item())
        first += seq_len
        if first >= len(data) - 1:
            first, hidden = 0, model.init_hidden(BATCH)
    print(f"perplexity of the last batch: {math.exp(loss.item()):.1f}")


if __name__ == "__main__":
    main()
