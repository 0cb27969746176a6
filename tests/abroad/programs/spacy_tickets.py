# SPDX-License-Identifier: Apache-2.0
"""Routing of support tickets: spaCy's tokenizer, hashed words, a convolution over their embeddings. Texts are texts until batched."""

import argparse
import json
import random
from itertools import islice

import spacy
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader

BUCKETS = 1 << 15


class TicketDataset(torch.utils.data.Dataset):
    def __init__(self, path, transform=None):
        with open(path) as lines:
            self.tickets = [json.loads(line) for line in lines]
        self.queues = sorted({ticket["queue"] for ticket in self.tickets})
        self.texts = [ticket["subject"] + "\n" + ticket["body"] for ticket in self.tickets]
        if transform:
            self.texts = [transform(text) for text in self.texts]

    def __len__(self):
        return len(self.tickets)

    def __getitem__(self, i):
        return self.texts[i], self.queues.index(self.tickets[i]["queue"])


class Vectorizer:
    """Text -> tensor of word ids."""

    def __init__(self, max_tokens):
        self.nlp = spacy.blank("en")
        self.max_tokens = max_tokens

    def __call__(self, text):
        doc = self.nlp(text)
        words = (token for token in doc if not (token.is_space or token.is_punct or token.is_stop))
        ids = [token.norm % BUCKETS for token in islice(words, self.max_tokens)]
        return torch.tensor(ids or [0])


class Collator:
    def __init__(self, vectorizer):
        self.vectorizer = vectorizer

    def __call__(self, samples):
        texts, labels = zip(*samples)
        ids = [text if torch.is_tensor(text) else self.vectorizer(text) for text in texts]
        return nn.utils.rnn.pad_sequence(ids, batch_first=True), torch.tensor(labels)


class TextCNN(nn.Module):
    def __init__(self, classes, dim=64, filters=64):
        super().__init__()
        self.embedding = nn.EmbeddingBag(BUCKETS, dim, sparse=True, mode="sum")
        self.words = nn.Embedding(BUCKETS, dim, sparse=True)
        self.convs = nn.ModuleList([nn.Conv1d(dim, filters, k, padding=k // 2) for k in (3, 5)])
        self.out = nn.Linear(2 * filters + dim, classes)

    def forward(self, ids):
        x = self.words(ids).transpose(1, 2)
        pooled = [conv(x).relu().amax(2) for conv in self.convs]
        return self.out(torch.cat([*pooled, self.embedding(ids) / ids.shape[1]], 1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("tickets")
    ap.add_argument("--pretokenize", action="store_true", help="run spaCy over the whole corpus when it is loaded")
    ap.add_argument("--num-workers", type=int, default=0)
    ap.add_argument("--prefetch-factor", type=int, default=2)
    ap.add_argument("--max-tokens", type=int, default=200)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=5)
    args = ap.parse_args()

    random.seed(7)
    torch.manual_seed(7)
    vectorizer = Vectorizer(args.max_tokens)
    train = TicketDataset(args.tickets, vectorizer if args.pretokenize else None)
    extra = dict(prefetch_factor=args.prefetch_factor, persistent_workers=True) if args.num_workers else {}
    loader = DataLoader(
        train, args.batch_size, shuffle=True, drop_last=True, collate_fn=Collator(vectorizer), num_workers=args.num_workers, **extra
    )
    net = TextCNN(len(train.queues))
    sparse = [net.embedding.weight, net.words.weight]
    dense = [*net.convs.parameters(), *net.out.parameters()]
    optimizers = [torch.optim.SparseAdam(sparse, lr=2e-3), torch.optim.Adam(dense, lr=1e-3)]
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    meter = Meter(15, args.batch_size)
    for epoch in range(args.epochs):
        hits = 0
        for ids, labels in loader:
            logits = net(ids)
            loss = criterion(logits, labels)
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            hits += (logits.argmax(1) == labels).sum().item()
            meter.step()
        print(f"epoch {epoch + 1}: train accuracy {hits / len(loader) / args.batch_size:.3f}")
    meter.print()


if __name__ == "__main__":
    main()
