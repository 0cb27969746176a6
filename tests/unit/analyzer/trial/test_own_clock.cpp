// SPDX-License-Identifier: Apache-2.0
// Lines as programs print them. Those of tqdm, Keras, Lightning and Hugging Face's Trainer are copies of
// their real output; those of timm, Megatron, nanoGPT, fairseq, detectron2 and mmengine follow the format in
// their sources.
#include "analyzer/trial/own_clock.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>

namespace {

using namespace gpuwatch::trial;

std::string repeated(const std::string& line, int times = 4) {
  std::string text;
  for (int i = 0; i < times; ++i) text += line;
  return text;
}

std::optional<OwnClock> clock_in(const char* line) {
  return own_clock(repeated(line + std::string("\n")));
}

struct Example {
  const char* name;
  const char* line;
  const char* unit = "";
  double value = 0;
};

constexpr Example kPrinted[] = {
    {"Tqdm", " 25%|\u2588\u2588\u258c  | 3/12 [00:00<00:00, 24.64it/s, loss=1.5, lr=1e-3/s]", "it/s", 24.64},
    {"TqdmAscii", "10%|#   | 12/100 [00:01<00:10,  8.31it/s, loss=2.1]", "it/s", 8.31},
    {"TqdmSlow", " 67%|###  | 2/3 [00:02<00:01,  1.25s/it]", "it/s", 0.8},
    {"TqdmUnit", " 17%|#7  | 5/30 [00:00<00:00, 49.58img/s]", "images/s", 49.58},
    {"TqdmUnitSlow", " 17%|#7  | 5/30 [00:00<00:00, 2.00s/batch]", "batches/s", 0.5},
    {"TqdmScale", "Epoch 1/2:  18%|#8  | 551k/3.00M [00:00<00:00, 5.51Msamples/s]", "samples/s", 5.51e6},
    {"TqdmNoTotal", "12it [00:01, 10.50it/s]", "it/s", 10.5},
    {"Lightning", "Epoch 1:   4%|#   | 40/1095 [00:03<01:37, 10.84it/s, v_num=10, train_loss=1.820]", "it/s",
     10.84},
    {"LightningRich", "Epoch 1/1  \u2501\u2501\u2501 40/40 0:00:00 \u2022 0:00:00 71.32it/s loss: 0.071 ",
     "it/s", 71.32},
    {"Keras",
     "\x1b[1m 4/50\x1b[0m \x1b[32m\u2501\x1b[0m\x1b[37m\u2501\u2501\x1b[0m \x1b[1m0s\x1b[0m "
     "20ms/step - loss: "
     "1.5000\b\b\b\b\b\b\b\b",
     "ms/step", 20},
    {"KerasVerbose2", "100/100 - 8s - 80ms/step - accuracy: 0.9435 - loss: 0.1429", "ms/step", 80},
    {"KerasSlow", "28/28 \u2501\u2501 98s 3s/step - accuracy: 0.27 - loss: 2.37", "ms/step", 3000},
    {"KerasFast", "28/28 \u2501\u2501 0s 750us/step - loss: 2.37", "ms/step", 0.75},
    {"ImageNet",
     "Epoch: [0][  10/5005]\tTime  0.123 (  0.130)\tData  0.001 (  0.010)\tLoss 6.9e+00 (7.0e+00)", "time",
     0.123},
    {"Timm",
     "Train: 0 [  50/312 ( 16%)]  Loss: 6.94 (6.95)  Time: 0.120s,  512.30/s  (0.130s,  500.00/s) "
     " LR: "
     "1.000e-05  Data: 0.002 (0.010)",
     "/s", 512.3},
    {"NanoGpt", "iter 10: loss 3.2000, time 134.21ms, mfu 1.00%", "ms (time)", 134.21},
    {"BuildNanoGpt", "step    10 | loss: 6.1 | lr 6.0000e-04 | dt: 134.21ms | tok/sec: 123456.78", "tokens/s",
     123456.78},
    {"Megatron",
     " [2025-08-01 07:19:37] iteration  1/  5000 | consumed samples: 128 | elapsed time per "
     "iteration (ms): "
     "19138.8 | throughput per GPU (TFLOP/s/GPU): 80.2 | learning rate: 6.976744E-08 |",
     "ms/iter", 19138.8},
    {"Detectron2",
     "[04/13 23:51:12 d2.utils.events]:  eta: 3 days, 0:24:23  iter: 359  total_loss: 59.9  time: "
     "0.7098  "
     "last_time: 0.7054  data_time: 0.0058  lr: 0.0001",
     "time", 0.7098},
    {"Mmengine",
     "06/11 00:20:51 - mmengine - INFO - Epoch(train)  [9][ 50/400]  lr: 2.5e-04  eta: 1:04:47  "
     "time: 0.6590 "
     " data_time: 0.0086  memory: 16178",
     "time", 0.659},
    {"Fairseq", "epoch 001:  100 / 1000 loss=9.1, ppl=550, wps=12345.6, ups=3.1, wpb=4000, bsz=128",
     "words/s", 12345.6},
    {"Mxnet", "INFO:root:Epoch[0] Batch [20]\tSpeed: 1910.41 samples/sec\taccuracy=0.1\tlr=0.1", "samples/s",
     1910.41},
    {"TensorFlow1", "2017: step 10, loss = 4.65 (981.8 examples/sec; 0.130 sec/batch)", "examples/s", 981.8},
    {"WordLanguageModel", "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.31 | loss  7.63",
     "ms/batch", 12.31},
    {"Thousands", "step 12 | loss 2.31 | 1,234,567 tokens/s", "tokens/s", 1234567},
    {"Prefix", "step 12: 12.3k tokens/s", "tokens/s", 12300},
    {"KeyInParentheses", "Throughput (samples/s): 512.5", "samples/s", 512.5},
    {"Json", "{\"step\": 10, \"samples_per_sec\": 51.5, \"lr\": 0.1}", "samples/s", 51.5},
    {"InWords", "epoch 1: 88.5 images per second", "images/s", 88.5},
    {"Throughput", "step 3 throughput: 1234.5", "throughput", 1234.5},
    {"ThroughputThenKey", "throughput: 1234.5 loss: 2.3", "throughput", 1234.5},
    {"StepTime", "step 7, step_time: 0.125, loss: 2", "step time", 0.125},
    {"StepTimeUnit", "step time: 125ms", "ms/step", 125},
    {"Clock", "[12:30:05] step 3: 0.25 s/step", "ms/step", 250},
    {"SecondsAStep", "[10/100] 0.25 s/step", "ms/step", 250}};

TEST(OwnClock, PrintedLinesAreRead) {
  for (const Example& example : kPrinted) {
    SCOPED_TRACE(example.name);
    const auto clock = clock_in(example.line);
    ASSERT_TRUE(clock);
    EXPECT_EQ(clock->unit, example.unit);
    EXPECT_NEAR(clock->value, example.value, 1e-9 * example.value);
    EXPECT_EQ(clock->readings, 4);
  }
}

constexpr Example kNoSpeed[] = {
    {"LearningRate", "lr 1e-3/s"},
    {"Eta", "step 3 ETA 12s"},
    {"LossAndAverage", "loss 3.2 (3.1)"},
    {"TotalTime", "Epoch 3 total time: 12.3s"},
    {"EpochTime", "epoch time 12.3 (12.1)"},
    {"DataTime", "data_time: 0.01 (0.02)"},
    {"ValidationBar", "Validation DataLoader 0: 100%|##| 20/20 [00:00<00:00, 108.42it/s]"},
    {"ShortName", "val: 100%|##| 20/20 [00:00<00:00, 108.42it/s]"},
    {"TimmTest", "Test: [  10/78]  Time: 0.123 (0.130)  Loss: 1.2 (1.3)"},
    {"MmengineVal", "06/11 - mmengine - INFO - Epoch(val) [9][5/5] data_time: 0.01  time: 0.39"},
    {"TrainerEval", "{'eval_loss': 1.14, 'eval_samples_per_second': 688.9}"},
    {"Download", "Downloading: 100%|##| 10/10 [00:01<00:00, 9.1it/s]"},
    {"DatasetMap", "Map: 100%|##| 1000/1000 [00:00<00:00, 4000.1 examples/s]"},
    {"Bytes", "100%|##| 1.2M/1.2M [00:00<00:00, 3.4MB/s]"},
    {"NoRateYet", "  0%|          | 0/12 [00:00<?, ?it/s]"},
    {"ZeroRate", "  0%|          | 0/12 [00:00<00:00, 0.00it/s]"},
    {"OfOneDevice", "step 3: 512.3 tokens/s/gpu"},
    {"Flops", "throughput: 80.2 TFLOP/s"},
    {"WhichNumber", "lr 20.00 ms/batch 123.2"},
    {"PartOfStep", "forward: 12.3 ms/step"},
    {"DataPart", "data: 0.012 s/it"},
    {"Version", "trainer v1.2it/s"},
    {"Range", "expected 5-8 it/s"},
    {"Prose", "Consider more workers to raise samples/s"},
    {"Elapsed", "time 12.3s"},
    {"Coarse", "0it/s"}};

TEST(OwnClock, WhatIsNoSpeedOfTrainingIsLeftOut) {
  for (const Example& example : kNoSpeed) {
    const auto clock = clock_in(example.line);
    EXPECT_FALSE(clock) << example.name << ": " << clock->value << ' ' << clock->unit;
  }
}

TEST(OwnClock, NothingOfNothing) {
  EXPECT_FALSE(own_clock(""));
  EXPECT_FALSE(own_clock("\n\r\n"));
  EXPECT_FALSE(own_clock(repeated("8.3it/s\n", 2)));  // two are too few
}

TEST(OwnClock, FirstQuarterIsWarmUp) {
  const auto clock = own_clock("1 it/s\n1 it/s\n8 it/s\n9 it/s\n8 it/s\n7 it/s\n8 it/s\n8 it/s\n");
  ASSERT_TRUE(clock);
  EXPECT_EQ(clock->value, 8);
}

TEST(OwnClock, MostReadingsWinThenSamples) {
  const std::string bar = "10%|#  | 12/100 [00:01<00:10, 8.31it/s]\r";
  const std::string line = "step 1: 64.0 samples/s\n";
  EXPECT_EQ(own_clock(repeated(bar, 5) + repeated(line, 4))->unit, "it/s");
  EXPECT_EQ(own_clock(repeated(bar, 4) + repeated(line, 4))->unit, "samples/s");
}

TEST(OwnClock, BarWithAnotherTotalIsAnother) {
  const std::string train = "10%|#  | 12/100 [00:01<00:10, 8.0it/s]\r",
                    other = "10%|#  | 2/20 [00:01<00:10, 90.0it/s]\r";
  EXPECT_EQ(own_clock(repeated(train, 9) + repeated(other, 5) + repeated(train, 9))->value, 8);
  const std::string fit = "12/100 \u2501\u2501 3s 25ms/step\r", evaluate = "12/40 \u2501\u2501 3s 5ms/step\r";
  EXPECT_EQ(own_clock(repeated(evaluate, 4) + repeated(fit, 5))->value, 25);
}

TEST(OwnClock, BarThatCrossesOneASecondIsOneSeries) {
  const auto clock = own_clock(repeated("| 2/9 [00:02<00:01,  1.25s/it]\r", 4) +
                               repeated("| 3/9 [00:02<00:01,  1.60it/s]\r", 5));
  ASSERT_TRUE(clock);
  EXPECT_EQ(clock->readings, 9);
  EXPECT_EQ(clock->value, 1.6);
}

TEST(OwnClock, SummaryOnlyWhereThereIsNoOther) {
  const std::string summary =
      "{'train_runtime': 1.4962, 'train_samples_per_second': 213.879, 'train_steps_per_second': 53.47}\n";
  const auto alone = own_clock(summary);
  ASSERT_TRUE(alone);
  EXPECT_TRUE(alone->is_summary);
  EXPECT_EQ(alone->value, 213.879);
  EXPECT_EQ(own_clock(repeated("| 3/9 [00:02<00:01,  1.60it/s]\r", 3) + summary)->unit, "it/s");
  EXPECT_EQ(own_clock("{'train_samples_per_second': '213.8'}\n")->value, 213.8);
}

TEST(OwnClock, ClockSinceTheStartIsNoStepTime) {
  std::string since_start, of_step;
  for (int i = 1; i < 9; ++i) {
    since_start += fmt::format("step {}: loss 2.1, time {}.5s\n", i, 10 * i);
    of_step += fmt::format("step {}: loss 2.1, time {}.5s\n", i, 10 + i % 3);
  }
  EXPECT_FALSE(own_clock(since_start));
  EXPECT_TRUE(own_clock(of_step));
}

TEST(OwnClock, CursorMovesEndALine) {
  EXPECT_EQ(own_clock(repeated("\x1b[A\x1b[2K| 3/9 [00:02<00:01, \x1b[33m4.50it/s\x1b[0m]"))->readings, 4);
  EXPECT_EQ(own_clock(repeated("\x1b]0;9.0it/s\a 4.50it/s\n"))->value, 4.5);
}

TEST(OwnSpeedup, OfRatesAndDurations) {
  const auto clock = [](const char* line) { return *own_clock(repeated(line)); };
  EXPECT_NEAR(*own_speedup(clock("100.0 img/s\n"), clock("150.0 img/s\n")), 1.5, 1e-9);
  EXPECT_NEAR(*own_speedup(clock("300 ms/step\n"), clock("150 ms/step\n")), 2, 1e-9);
}

TEST(OwnSpeedup, OnlyOfTheSame) {
  const auto clock = [](const char* line) { return *own_clock(repeated(line)); };
  EXPECT_FALSE(own_speedup(clock("100.0 img/s\n"), clock("100.0 tok/s\n")));
  EXPECT_FALSE(own_speedup(clock("actor: 100.0 it/s\n"), clock("learner: 100.0 it/s\n")));
  EXPECT_FALSE(
      own_speedup(clock("| 3/9 [00:02<00:01, 4.50it/s]\n"), clock("| 3/8 [00:02<00:01, 4.50it/s]\n")));
}

TEST(OwnSpeedup, NotOfCoarseNumbers) {
  const auto clock = [](const char* line) { return *own_clock(repeated(line)); };
  EXPECT_FALSE(own_speedup(clock("1s/step\n"), clock("1s/step\n")));
  EXPECT_FALSE(own_speedup(clock("2ms/step\n"), clock("1ms/step\n")));
  EXPECT_FALSE(own_speedup({}, {}));
}

TEST(OwnClock, LongLinesAreCut) {
  const std::string garbage(1 << 20, 'x');
  EXPECT_FALSE(own_clock(garbage));
  EXPECT_EQ(own_clock(garbage + "\n" + repeated("8.5it/s\n"))->value, 8.5);
  EXPECT_FALSE(own_clock(repeated(garbage + " 8.5it/s\n")));
}

// Each makes a parser slow or read beyond the end that looks back or ahead without a limit.
TEST(OwnClock, HostileOutput) {
  for (const std::string& piece :
       {std::string("1"), std::string("1 "), std::string("/s"), std::string("time 1 "), std::string("1,"),
        std::string("a per "), std::string("[1:"), std::string("((((1"), std::string("\x1b["),
        std::string("\x1b]"), std::string("1e9"), std::string("data_time: 1 time "), std::string("\0", 1),
        std::string("\xff\xfe"), std::string("_per_"), std::string("1it/s "), std::string("'\":=")}) {
    std::string text;
    while (text.size() < (1 << 20)) text += piece;
    own_clock(text);
    for (size_t i = 4000; i < text.size(); i += 4000) text[i] = '\n';
    own_clock(text);
  }
  EXPECT_FALSE(own_clock(repeated("1e999it/s\n1e-999it/s\n" + std::string(3000, '9') + "it/s\n")));
}

TEST(OwnClock, RandomBytesAndCutLines) {
  std::mt19937 random(1);
  constexpr char kBytes[] = "0123456789.,:=/()[]'\"_-| \t\n\r\b\x1b[mitsampletokenperdatame\0\xff";
  const std::string alphabet(kBytes, sizeof kBytes - 1);
  for (int round = 0; round < 300; ++round) {
    std::string text(2000, '\0');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    if (const auto clock = own_clock(text)) {
      EXPECT_TRUE(std::isfinite(clock->value) && clock->value > 0);
      for (const char c : clock->series + clock->unit) EXPECT_TRUE(c >= ' ' && c <= '~');
    }
  }
  const std::string line =
      "Epoch 1: 4%|#| 40/95 [00:03<01:37, 10.84it/s] 1.5k tok/s time 1 (2) 'train_samples_per_second': 1";
  for (size_t end = 0; end <= line.size(); ++end) own_clock(repeated(line.substr(0, end) + "\n"));
}

}  // namespace
