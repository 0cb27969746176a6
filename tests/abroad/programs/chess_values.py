# SPDX-License-Identifier: Apache-2.0
"""Values and moves of chess positions from a text file of FENs with an engine's verdict. Moves that a piece cannot make are masked."""

import random
import re

import click
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

PIECES = "PNBRQKpnbrqk"
STEPS = {
    "n": [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)],
    "b": [(1, 1), (1, -1), (-1, 1), (-1, -1)],
    "r": [(1, 0), (-1, 0), (0, 1), (0, -1)],
}
STEPS["q"] = STEPS["k"] = STEPS["b"] + STEPS["r"]
DIGITS = str.maketrans({str(number): "." * number for number in range(1, 9)} | {"/": None})


def random_fen(rng):
    board = ["."] * 64
    pieces = "Kk" + "".join(rng.choices("PPPPPPPPNNBBRRQpppppppnnbbrrq", k=rng.randint(8, 28)))
    for piece, square in zip(pieces, rng.sample(range(64), len(pieces))):
        board[square] = piece
    rows = ["".join(board[at : at + 8]) for at in range(0, 64, 8)]
    placement = re.sub(r"\.+", lambda empty: str(len(empty[0])), "/".join(rows))
    return f"{placement} {rng.choice('wb')} - - 0 {rng.randint(10, 60)}"


def squares_of(placement):
    board = []
    for letter in placement:
        if letter.isdigit():
            board.extend("." for _ in range(int(letter)))
        elif letter != "/":
            board.append(letter)
    return board


def moves(board, white):
    """(from, to) of all pseudo-legal moves, as if there were no castling, en passant and double steps."""
    for square, piece in enumerate(board):
        if piece == "." or piece.isupper() != white:
            continue
        row, column, kind = square // 8, square % 8, piece.lower()
        if kind == "p":
            ahead = square - 8 if white else square + 8
            if 0 <= ahead < 64:
                if board[ahead] == ".":
                    yield square, ahead
                for target in (ahead - 1, ahead + 1):
                    if target // 8 == ahead // 8 and board[target] != "." and board[target].isupper() != white:
                        yield square, target
            continue
        for down, right in STEPS[kind]:
            r, c = row + down, column + right
            while 0 <= r < 8 and 0 <= c < 8:
                target = board[8 * r + c]
                if target != "." and target.isupper() == white:
                    break
                yield square, 8 * r + c
                if target != "." or kind in "nk":
                    break
                r, c = r + down, c + right


class Positions(Dataset):
    def __init__(self, count, parser):
        rng = random.Random(64)
        self.fens = [random_fen(rng) for _ in range(4000)]
        self.verdicts = [rng.gauss(0, 200) for _ in self.fens]
        self.count, self.parser = count, parser

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        placement, side, *_ = self.fens[index % len(self.fens)].split()
        board = squares_of(placement) if self.parser == "letters" else placement.translate(DIGITS)
        planes = torch.zeros(13, 64)
        for square, piece in enumerate(board):
            if piece != ".":
                planes[PIECES.index(piece), square] = 1
        planes[12] = side == "w"
        possible = list(moves(board, side == "w")) or [(0, 0)]
        mask = torch.full((64, 64), -1e4)
        start, target = torch.tensor(possible).T
        mask[start, target] = 0
        played = possible[index % len(possible)]
        value = 2 / (1 + 10 ** (-self.verdicts[index % len(self.fens)] / 400)) - 1
        return planes.view(13, 8, 8), mask.flatten(), played[0] * 64 + played[1], torch.tensor(value)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        return torch.relu(x + self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x))))))


class Net(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(13, width, 3, padding=1), nn.ReLU(), *[Residual(width) for _ in range(blocks)])
        self.policy = nn.Conv2d(width, 64, 1)
        self.value = nn.Sequential(nn.Conv2d(width, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())

    def forward(self, planes):
        x = self.body(planes)
        return self.policy(x).flatten(2).transpose(1, 2).flatten(1), self.value(x).squeeze(1)


@click.command()
@click.option("--batch-size", default=64)
@click.option("--steps", default=320)
@click.option("--workers", default=0)
@click.option("--parser", type=click.Choice(["letters", "translate"]), default="letters")
@click.option("--threads", default=1, help="of PyTorch; the engine has the other cores")
@click.option("--log-every", default=25)
def main(batch_size, steps, workers, parser, threads, log_every):
    torch.manual_seed(64)
    torch.set_num_threads(threads)
    loader = DataLoader(Positions(steps * batch_size, parser), batch_size, shuffle=True, num_workers=workers)
    net = Net(width=16, blocks=2)
    optimizer = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9, weight_decay=1e-4, nesterov=True)
    meter = Meter(15, batch_size)
    for step, (planes, mask, played, value) in enumerate(loader):
        logits, verdict = net(planes)
        policy_loss = nn.functional.cross_entropy(logits + mask, played)
        value_loss = nn.functional.mse_loss(verdict, value)
        optimizer.zero_grad()
        (policy_loss + value_loss).backward()
        optimizer.step()
        if step % log_every == 0:
            click.echo(f"{step:>5}  policy {policy_loss.item():.3f}  value {value_loss.item():.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
