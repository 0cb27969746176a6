# SPDX-License-Identifier: Apache-2.0
"""transformers.Trainer on datasets: a small BERT, texts tokenized when they are read (set_transform)."""

import argparse
import tempfile

import torch
from datasets import load_dataset
from meter import Meter
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, Trainer, TrainerCallback, TrainingArguments


class Clock(TrainerCallback):
    def __init__(self, meter):
        self.meter = meter

    def on_step_end(self, args, state, control, **kwargs):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", required=True)
    parser.add_argument("--pad-to-max-length", action=argparse.BooleanOptionalAction)
    parser.add_argument("--group-by-length", action="store_true")
    parser.add_argument("--max-length", type=int, default=384)
    parser.add_argument("--dataloader-num-workers", type=int, default=0)
    parser.add_argument("--per-device-batch", type=int, default=8)
    parser.add_argument("--save-steps", type=int, default=0)
    parser.add_argument("--logging-steps", type=int, default=25)
    parser.add_argument("--max-steps", type=int, default=70)
    parser.add_argument("--map", action="store_true", help="tokenize once, before training")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = load_dataset("json", data_files=args.texts, split="train", cache_dir=folder)
        words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.Whitespace()
        words.train_from_iterator(texts["text"][:500], trainers.WordPieceTrainer(vocab_size=4000, special_tokens=["[UNK]", "[PAD]", "[CLS]", "[SEP]"]))
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")

        def tokenize(batch):
            padding = "max_length" if args.pad_to_max_length else False
            return {**tokenizer(batch["text"], truncation=True, max_length=args.max_length, padding=padding), "labels": batch["label"]}

        if args.map or args.group_by_length:
            texts = texts.map(tokenize, batched=True, remove_columns=["text", "label"])
        else:
            texts.set_transform(tokenize)
        model = BertForSequenceClassification(BertConfig(vocab_size=4000, hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, max_position_embeddings=512))
        meter = Meter(10, args.per_device_batch)
        options = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=args.per_device_batch, max_steps=args.max_steps, logging_steps=args.logging_steps,
            save_strategy="steps" if args.save_steps else "no", save_steps=args.save_steps or 500, save_total_limit=1, report_to=[], disable_tqdm=True,
            dataloader_num_workers=args.dataloader_num_workers, remove_unused_columns=False, group_by_length=args.group_by_length, use_cpu=True,
        )  # fmt: skip
        Trainer(model, options, train_dataset=texts, processing_class=tokenizer, callbacks=[Clock(meter)]).train()
        meter.print()


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
