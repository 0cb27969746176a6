// SPDX-License-Identifier: Apache-2.0
#include "analyzer/io/gzip_text.h"
#include "analyzer/io/kineto_file.h"
#include "tests/unit/analyzer/scratch_file.h"

namespace gpuwatch::io {
namespace {

using test::says;
class KinetoFileTest : public test::FileTest {
 protected:
  KinetoTrace read(const std::string& json) { return read_kineto(save(json)); }
  KinetoTrace read_events(const std::string& events) { return read(R"({"traceEvents": [)" + events + "]}"); }
  std::string error(const std::string& json) {
    return error_of([&] { read(json); });
  }
};

TEST_F(KinetoFileTest, TimesAreExactToTheNanosecond) {
  const auto trace = read(R"({"baseTimeNanoseconds": 1712000000000000001, "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1712195495505543.123, "dur": 41.768},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": "12.5", "dur": "0.0019"},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": -1.25, "dur": 7},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5e3, "dur": -3}]})");
  ASSERT_EQ(trace.events.size(), 4);
  EXPECT_EQ(trace.base_ns, 1712000000000000001);
  EXPECT_EQ(trace.resolution_ns, 1);
  EXPECT_EQ(trace.events[0].begin_ns, 1712195495505543123);
  EXPECT_EQ(trace.events[0].length_ns, 41768);
  EXPECT_EQ(trace.events[1].begin_ns, 12500);
  EXPECT_EQ(trace.events[1].length_ns, 1);
  EXPECT_EQ(trace.events[2].begin_ns, -1250);
  EXPECT_EQ(trace.events[2].length_ns, 7000);
  EXPECT_EQ(trace.events[3].begin_ns, 1500000);
  EXPECT_EQ(trace.events[3].length_ns, 0);
}

TEST_F(KinetoFileTest, WholeMicrosecondsAreNoBetterThanThat) {
  EXPECT_EQ(read_events(R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "dur": 1})").resolution_ns,
            1000);
}

TEST_F(KinetoFileTest, FieldsComeInAnyOrder) {
  const auto trace = read(R"({"traceEvents": [
    {"args": {"grid": [1, 2, 3], "stream": 20, "device": 3, "correlation": 9, "block": [32, 1, 1], "context": 1,
              "blocks per SM": inf, "nested": {"stream": 1, "deep": [[], {}]}},
     "dur": 2, "ts": 1, "tid": 7, "pid": 0, "name": "k", "cat": "kernel", "ph": "X"}],
    "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "nccl_version": "2.17.1"},
    "deviceProperties": [{"id": 3, "name": "A100", "totalGlobalMem": 42505273344, "computeMajor": 8, "computeMinor": 0,
                          "numSms": 108}]})");
  ASSERT_EQ(trace.events.size(), 1);
  const KinetoEvent& kernel = trace.events[0];
  EXPECT_EQ(kernel.category, KinetoCategory::kKernel);
  EXPECT_EQ(kernel.device, 3);
  EXPECT_EQ(kernel.stream, 20);
  EXPECT_EQ(kernel.correlation, 9);
  EXPECT_EQ(kernel.grid[2], 3);
  EXPECT_EQ(kernel.block[0], 32);
  EXPECT_EQ(trace.rank, 3);
  EXPECT_EQ(trace.world_size, 8);
  EXPECT_EQ(trace.nccl_version, "2.17.1");
  ASSERT_EQ(trace.devices.size(), 1);
  EXPECT_EQ(trace.devices[0].multiprocessors, 108);
  EXPECT_EQ(trace.devices[0].memory_bytes, 42505273344);
}

TEST_F(KinetoFileTest, KeepsWhatSaysSomething) {
  const auto trace = read_events(R"(
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 5, "ts": 1, "dur": 1, "args": {"correlation": 1}},
    {"ph": "X", "cat": "cpu_op", "name": "enumerate(DataLoader)#_X.__next__", "pid": 5, "tid": 5, "ts": 1, "dur": 1},
    {"ph": "s", "id": 5, "pid": 5, "tid": 5, "ts": 1, "cat": "ac2g", "name": "ac2g"},
    {"ph": "X", "cat": "Trace", "ts": 1, "dur": 9, "pid": "Spans", "tid": "PyTorch Profiler", "name": "x"},
    {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": -247463936, "ts": 1, "dur": 1},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "dur": 1},
    {"ph": "M", "name": "thread_name", "pid": 5, "tid": 5, "ts": 1, "args": {"name": "thread 5"}},
    {"ph": "M", "name": "process_name", "pid": 5, "tid": 0, "ts": 1, "args": {"name": "python3.11"}},
    17, null, [])");
  EXPECT_EQ(trace.events_read, 11);
  EXPECT_EQ(trace.events_without_time, 1);
  ASSERT_EQ(trace.events.size(), 2);
  EXPECT_EQ(trace.events[0].category, KinetoCategory::kAnnotation);
  EXPECT_EQ(trace.events[1].category, KinetoCategory::kCudaCall);
  EXPECT_EQ(trace.events[1].thread, -247463936);
  EXPECT_EQ(trace.pid, 5);
  EXPECT_EQ(trace.process_name, "python3.11");
  EXPECT_EQ(trace.thread_names.at(5), "thread 5");
}

TEST_F(KinetoFileTest, SaysWhatIsWrongWithAFile) {
  EXPECT_TRUE(says(error(R"({"schemaVersion": 1})"), "no \"traceEvents\""));
  EXPECT_EQ(error("[]"), "");  // a bare list of events is one of the two forms of the format
  EXPECT_TRUE(says(error("7"), "trace.json"));
  EXPECT_TRUE(says(error(""), "no whole JSON document"));
  EXPECT_TRUE(says(error(R"({"traceEvents": [{"ph": "X", "cat": "ker)"), "no whole JSON document"));
  EXPECT_TRUE(says(error("{\"traceEvents\": [\"\xff\"]}"), "no whole JSON document"));
  EXPECT_TRUE(says(error_of([&] { read_kineto(directory_ / "absent.json"); }), "cannot open"));
  EXPECT_TRUE(says(error_of([&] { read_kineto(directory_); }), "is not a file"));
}

TEST_F(KinetoFileTest, NestingCostsNoStack) {
  const std::string deep(1 << 20, '[');
  EXPECT_NE(error(R"({"x": )" + deep), "");
  EXPECT_NE(error(R"({"traceEvents": [{"args": )" + deep), "");
}

TEST_F(KinetoFileTest, UnpacksGzip) {
  std::string json = R"({"traceEvents": [)";
  for (int i = 0; i < 50000; ++i)
    json += R"({"ph": "X", "cat": "kernel", "name": "k)" + std::to_string(i % 7) + R"(", "ts": )" +
            std::to_string(i) + R"(, "dur": 1},)";
  json.back() = ']';
  json += '}';
  const auto trace = read_kineto(save_gzip(json));
  EXPECT_EQ(trace.events.size(), 50000);
  EXPECT_EQ(trace.names.size(), 7);
  EXPECT_EQ(trace.json_bytes, json.size());
  EXPECT_LT(trace.file_bytes, json.size());
  const std::string path = directory_ / "trace.json.gz";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_TRUE(says(error_of([&] { read_kineto(path); }), "is cut off"));
}

TEST_F(KinetoFileTest, TextIsBounded) {
  const std::string path = save_gzip(std::string(70 << 20, ' '));
  EXPECT_TRUE(says(error_of([&] { read_text(path, 8 << 20); }), "more than 8 MiB"));
  EXPECT_TRUE(says(error_of([&] { read_text(path); }), "more than 64 MiB of text, 200 times"));
}

}  // namespace
}  // namespace gpuwatch::io
