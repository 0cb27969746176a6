# SPDX-License-Identifier: Apache-2.0
"""The same on the stand-in for PyTorch, for interpreters and ways of starting them."""

import json
import multiprocessing
import sys
import threading


class Samples:
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return float(index)


def train(workers, context, parameters, steps):
    import torch

    optimizer = torch.optim.SGD(parameters)
    loader = torch.utils.data.DataLoader(
        Samples(), batch_size=4, num_workers=workers, multiprocessing_context=context, persistent_workers=workers > 0
    )
    for _ in range(2):
        for batch in loader:
            optimizer.step(sum(batch))
            steps.append(batch)


def main(arguments):
    options = dict(word.split("=") for word in arguments)
    parameters, steps = [0.0], []
    work = (int(options.get("workers", 0)), options.get("context"), parameters, steps)
    if "thread" in options:
        thread = threading.Thread(target=train, args=work)
        thread.start()
        thread.join()
    else:
        train(*work)
    print(json.dumps({"steps": len(steps), "parameters": parameters, "method": multiprocessing.get_start_method(True)}))


if __name__ == "__main__":
    main([word for word in sys.argv[1:] if "=" in word])
