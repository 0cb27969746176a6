# SPDX-License-Identifier: Apache-2.0
"""Names the chords of pop songs, beat by beat, from chroma features: a bidirectional LSTM with a conditional random field on top,
so that unlikely changes of chord are not predicted. Songs are cut into phrases of the same number of beats."""

import argparse
import math

import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROOTS = ["C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B"]
CHORDS = [*ROOTS, *(root + "m" for root in ROOTS), "N"]
PROGRESSIONS = [(0, 7, 21, 5), (0, 21, 5, 7), (21, 5, 0, 7), (0, 5, 7, 5), (14, 7, 0, 0)]


class Phrases(Dataset):
    """Chroma of two octaves for each beat of a phrase, and its chord."""

    def __init__(self, phrases, beats, seed=7):
        generator = torch.Generator().manual_seed(seed)
        which = torch.randint(len(PROGRESSIONS), (phrases,), generator=generator)
        bars = torch.tensor(PROGRESSIONS)[which].repeat_interleave(4, 1)
        bars = bars.repeat(1, math.ceil(beats / bars.shape[1]))[:, :beats]
        key = torch.randint(12, (phrases, 1), generator=generator)
        self.chords = torch.where(bars < 12, (bars + key) % 12, (bars + key) % 12 + 12)
        third = torch.where(self.chords < 12, 4, 3)
        root = self.chords % 12
        notes = sum(nn.functional.one_hot((root + step) % 12, 12) for step in (0, third, 7))
        self.chroma = torch.cat([notes, notes], 2) + 0.4 * torch.randn(phrases, beats, 24, generator=generator)

    def __len__(self):
        return len(self.chords)

    def __getitem__(self, phrase):
        return self.chroma[phrase], self.chords[phrase]


class ConditionalRandomField(nn.Module):
    """Scores of changes from one tag to another. A loss is the log-partition less the score of the true path."""

    def __init__(self, tags, recursion):
        super().__init__()
        self.tags, self.recursion = tags, recursion
        self.transitions = nn.Parameter(0.1 * torch.randn(tags, tags))  # to, from
        self.start, self.stop = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))

    def path_score(self, emissions, path):
        score = emissions.gather(2, path[..., None]).squeeze(2).sum(1) + self.start[path[:, 0]] + self.stop[path[:, -1]]
        return score + self.transitions[path[:, 1:], path[:, :-1]].sum(1)

    def advance(self, alpha, emission):
        if self.recursion == "matrix":
            return torch.logsumexp(alpha[:, None, :] + self.transitions, 2) + emission
        following = []
        for tag in range(self.tags):
            score = alpha + self.transitions[tag] + emission[:, tag : tag + 1]
            following.append(torch.logsumexp(score, 1))
        return torch.stack(following, 1)

    def log_partition(self, emissions):
        alpha = self.start + emissions[:, 0]
        for beat in range(1, emissions.shape[1]):
            alpha = self.advance(alpha, emissions[:, beat])
        return torch.logsumexp(alpha + self.stop, 1)

    def forward(self, emissions, path):
        return (self.log_partition(emissions) - self.path_score(emissions, path)).mean()

    @torch.no_grad()
    def best_path(self, emissions):
        score, back = self.start + emissions[:, 0], []
        for beat in range(1, emissions.shape[1]):
            best, came_from = (score[:, None, :] + self.transitions).max(2)
            score = best + emissions[:, beat]
            back.append(came_from)
        path = [(score + self.stop).argmax(1)]
        for came_from in reversed(back):
            path.append(came_from.gather(1, path[-1][:, None]).squeeze(1))
        return torch.stack(path[::-1], 1)


class Tagger(nn.Module):
    def __init__(self, hidden, recursion):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(24, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Dropout(0.2))
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
        self.emit = nn.Linear(2 * hidden, len(CHORDS))
        self.crf = ConditionalRandomField(len(CHORDS), recursion)

    def emissions(self, chroma):
        return self.emit(self.lstm(self.front(chroma))[0])

    def forward(self, chroma, chords):
        return self.crf(self.emissions(chroma), chords)

    def name(self, chroma):
        return [[CHORDS[chord] for chord in phrase] for phrase in self.crf.best_path(self.emissions(chroma)).tolist()]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phrases", type=int, default=2000)
    parser.add_argument("--beats", type=int, default=32, help="of a phrase")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--recursion", choices=["tags", "matrix"], default="tags", help="how the forward algorithm takes a beat")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--clip", type=float, default=5.0)
    parser.add_argument("--fused", action="store_true", help="fused Adam")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--print-every", type=int, default=10)
    parser.add_argument("--show-every", type=int, default=40, help="steps between phrases whose chords are shown")
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(7)
    torch.set_num_threads(args.threads)
    loader = DataLoader(Phrases(args.phrases, args.beats), args.batch_size, shuffle=True, drop_last=True, num_workers=args.num_workers)
    tagger = Tagger(args.hidden, args.recursion)
    optimizer = torch.optim.Adam(tagger.parameters(), args.lr, fused=args.fused)
    meter, step = Meter(8, args.batch_size), 0
    for epoch in range(args.epochs):
        for chroma, chords in loader:
            tagger.train()
            loss = tagger(chroma, chords)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(tagger.parameters(), args.clip)
            optimizer.step()
            step += 1
            if step % args.print_every == 0:
                print(f"epoch {epoch} step {step}: {loss.item() / args.beats:.4f} nats a beat")
            if step % args.show_every == 0:
                tagger.eval()
                print(" ".join(tagger.name(chroma[:1])[0]))
            meter.step()
    meter.print()


if __name__ == "__main__":
    main()
