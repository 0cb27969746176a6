// SPDX-License-Identifier: Apache-2.0
// Every cold table ends up in the run, and ids of one file never meet those of another.
#include <gtest/gtest.h>

#include "analyzer/io/user_error.h"
#include "run_builder.h"

namespace gpuwatch {
namespace {

using test::RunTest;
using test::Slots;
using test::TraceBuilder;

using TablesTest = RunTest;

TEST_F(TablesTest, EachTableIsTaken) {
  TraceBuilder trace;
  const auto user = trace.text("ann"), host = trace.text("node7"), script = trace.text("train.py");
  const auto exe = trace.text("/usr/bin/python3"), run_id = trace.text("job.5");
  trace.table([&](auto& b) {
    return trace::CreateProcess(b, 3, 4242, 17, trace::kNoParent, trace::TickSource::Monotonic, 5000,
                                1'700'000, host, script, exe, user, run_id, 2, 1, 8, 16);
  });
  const auto name = trace.text("pt_main_thread"), path = trace.text("/lib/libtorch.so"),
             gpu = trace.text("NVIDIA H200");
  const auto key = trace.text("torch"), value = trace.text("2.13.0");
  trace.table([&](auto& b) { return trace::CreateThreadName(b, 3, 4242, key); });  // the later one counts
  trace.table([&](auto& b) { return trace::CreateThreadName(b, 3, 4242, name); });
  trace.table([&](auto& b) { return trace::CreateModule(b, 3, 0x7000, 0x100, path); });
  trace.table(
      [&](auto& b) { return trace::CreateDeviceInfo(b, 3, 1, gpu, 9, 0, 132, 141'000, 13000, 12080); });
  trace.table([&](auto& b) { return trace::CreateLoss(b, 3, 0, key, 5); });
  trace.table([&](auto& b) { return trace::CreateLoss(b, 3, 1, key, 6); });
  const auto part = trace.text("incomplete: ranges without a name");
  trace.table([&](auto& b) { return trace::CreateLoss(b, 3, 0, part, 4); });
  trace.table([&](auto& b) { return trace::CreateSource(b, 3, key, value); });
  trace.table([&](auto& b) { return trace::CreateFact(b, 3, key, value); });
  trace.table([&](auto& b) { return trace::CreateSample(b, 3, 9000, 1, 2, 3, 4, 5, 6, 7, 8, 9); });
  trace.table([&](auto& b) { return trace::CreateProcessEnd(b, 3, trace::EndReason::Exit, 12, 99'000); });
  const auto op = trace.operation("cudaLaunchKernel", trace::OpClass::Launch);
  trace.thread(3, 4242, Slots().host(op, 6000, 6005));
  const auto run = build(trace);

  ASSERT_EQ(run.processes.size(), 1u);
  const auto& p = run.processes[0];
  EXPECT_EQ(run.run_id, "job.5");
  EXPECT_EQ(p.pid, 4242u);
  EXPECT_EQ(p.parent_pid, 17u);
  EXPECT_EQ(p.host + "|" + p.script + "|" + p.executable + "|" + p.user,
            "node7|train.py|/usr/bin/python3|ann");
  EXPECT_EQ(p.rank, 2);
  EXPECT_EQ(p.local_rank, 1);
  EXPECT_EQ(p.world_size, 8);
  EXPECT_EQ(p.cpu_count, 16u);
  EXPECT_EQ(p.start, 5000);
  EXPECT_EQ(p.last_seen, 99'000);
  EXPECT_EQ(p.end_state, model::EndState::kExited);
  EXPECT_EQ(p.exit_code, 12);
  EXPECT_EQ(p.threads.at(0).name, "pt_main_thread");
  EXPECT_EQ(p.modules.at(0).path, "/lib/libtorch.so");
  EXPECT_EQ(p.devices.at(0).name, "NVIDIA H200");
  EXPECT_EQ(p.devices.at(0).ordinal, 1u);
  EXPECT_EQ(p.dropped_records.at("torch"), 11u);
  EXPECT_EQ(p.dropped_records.size(), 1u);
  EXPECT_EQ(p.incomplete.at("ranges without a name"), 4u);
  EXPECT_EQ(p.sources.at("torch").text, "2.13.0");
  EXPECT_EQ(p.sources.at("torch").state, trace::SourceState::Unknown);
  EXPECT_EQ(p.facts.at("torch"), "2.13.0");
  EXPECT_EQ(p.machine_samples.at(0).time, 9000);
  EXPECT_EQ(p.machine_samples.at(0).rss_bytes, 9u);
  EXPECT_EQ(run.operations.at(p.threads[0].calls.at(0).operation).name, "cudaLaunchKernel");
  EXPECT_TRUE(run.damage.empty());
}

TEST_F(TablesTest, ATableMayStandBeforeItsText) {
  TraceBuilder trace;
  trace.table([&](auto& b) { return trace::CreateOperation(b, 1, trace::OpClass::Read, 77); });
  trace.text_with_id(77, "pread64");
  trace.process({});
  trace.thread(0, 100, Slots().host(1, 2000, 2005));
  const auto run = build(trace);
  EXPECT_EQ(run.operations.at(run.processes[0].threads[0].calls[0].operation).name, "pread64");
}

TEST_F(TablesTest, IdsOfTwoFilesDoNotMix) {
  TraceBuilder a, b;
  a.process({.pid = 10, .rank = 0});
  b.process({.pid = 11, .rank = 1});
  const auto read = a.operation("read", trace::OpClass::Read);
  const auto sync = b.operation("cudaDeviceSynchronize", trace::OpClass::Sync);
  const auto open = b.operation("read", trace::OpClass::Read);
  ASSERT_EQ(read, sync);  // the same number, another meaning
  const auto path_a = a.text("/data/a"), path_b = b.text("/data/b");
  const auto gemm = a.kernel("gemm"), relu = b.kernel("relu"), gemm_b = b.kernel("gemm");
  a.stream(1, 0, 0, 7);
  b.stream(1, 0, 0, 9);
  a.thread(0, 10, Slots().host(read, 2000, 2005, 0, 0, trace::IoDetail(4096, 0, path_a, 0)));
  a.thread(0, 12, Slots().device(trace::RecordKind::Kernel, 1, 2000, 2010, 1, gemm));
  b.thread(0, 11,
           Slots().host(sync, 2000, 2005).host(open, 3000, 3005, 0, 0, trace::IoDetail(1, 0, path_b, 0)));
  b.thread(0, 12,
           Slots()
               .device(trace::RecordKind::Kernel, 1, 2000, 2010, 1, relu)
               .device(trace::RecordKind::Kernel, 1, 3000, 3010, 1, gemm_b));
  const auto run = build(a, b);

  ASSERT_EQ(run.processes.size(), 2u);
  const auto& pa = run.processes[0];
  const auto& pb = run.processes[1];
  EXPECT_EQ(run.operations[pa.threads[0].calls[0].operation].name, "read");
  EXPECT_EQ(run.operations[pb.threads[0].calls[0].operation].name, "cudaDeviceSynchronize");
  EXPECT_EQ(pb.threads[0].calls[0].op_class, trace::OpClass::Sync);
  EXPECT_EQ(pa.threads[0].calls[0].operation, pb.threads[0].calls[1].operation) << "equal operations are one";
  EXPECT_EQ(run.texts.at(pa.threads[0].io_details[0].path()), "/data/a");
  EXPECT_EQ(run.texts.at(pb.threads[0].io_details[0].path()), "/data/b");
  EXPECT_EQ(run.kernels.at(pa.devices[0].operations[0].kernel).name, "gemm");
  EXPECT_EQ(run.kernels.at(pb.devices[0].operations[0].kernel).name, "relu");
  EXPECT_EQ(pa.devices[0].operations[0].kernel, pb.devices[0].operations[1].kernel);
  EXPECT_EQ(pb.streams.at(pb.devices[0].operations[0].stream).id, 9u);
}

TEST_F(TablesTest, LoaderConfiguration) {
  TraceBuilder trace;
  trace.process({});
  trace.loader({.id = 5, .num_workers = 4, .batch_size = 32, .prefetch_factor = 2});
  const auto* loader = &build(trace).processes.at(0).loaders.at(0);
  const auto run = build(trace);
  loader = &run.processes.at(0).loaders.at(0);
  EXPECT_EQ(loader->id, 5u);
  EXPECT_EQ(loader->class_name, "DataLoader");
  EXPECT_EQ(loader->location, "train.py:88");
  EXPECT_EQ(loader->num_workers, 4);
  EXPECT_EQ(loader->batch_size, 32);
  EXPECT_EQ(loader->in_order, 1);
  EXPECT_EQ(loader->batches, -1);
}

TEST_F(TablesTest, ADamagedTableIsReportedAndTheOthersStay) {
  TraceBuilder trace;
  trace.process({});
  auto good = trace.text("good");
  trace.add_table({200, 0, 0, 0, 4, 0, 0, 0, 'T', 'E', 'X', 'T', 1, 2, 3, 4});  // claims more than there is
  trace.empty_pages(1);
  trace.table([&](auto& b) { return trace::CreateFact(b, 0, good, good); });
  const auto run = build(trace);
  EXPECT_EQ(run.processes.at(0).facts.at("good"), "good");
  EXPECT_PRED2(test::only_says, run.damage, "a table in page 1 is damaged");
}

TEST_F(TablesTest, UnknownTablesAndClassesOfALaterVersionAreSteppedOver) {
  TraceBuilder trace(trace::kMajorVersion, trace::kMinorVersion + 1);
  flatbuffers::FlatBufferBuilder unknown;
  unknown.FinishSizePrefixed(trace::CreateTableChunk(unknown, 0, 0), "ZZZZ");
  trace.add_table({unknown.GetBufferPointer(), unknown.GetBufferPointer() + unknown.GetSize()});
  trace.process({});
  const auto op = trace.operation("futureCall", static_cast<trace::OpClass>(250));
  trace.thread(0, 1, Slots().host(op, 2000, 2001).host(999, 3000, 3001));
  const auto run = build(trace);
  EXPECT_EQ(run.processes.at(0).threads[0].calls[0].op_class, trace::OpClass::Other);
  EXPECT_EQ(run.operations[run.processes[0].threads[0].calls[1].operation].name, "unknown");
  EXPECT_TRUE(run.damage.empty());
}

TEST_F(TablesTest, RecordsOfAProcessWithoutADescriptionAreKept) {
  TraceBuilder trace;
  trace.thread(9, 1, Slots().host(1, 2000, 2001));
  const auto run = build(trace);
  ASSERT_EQ(run.processes.size(), 1u);
  EXPECT_EQ(run.processes[0].end_state, model::EndState::kUnknown);
  EXPECT_EQ(run.processes[0].threads.at(0).calls.size(), 1u);
}

TEST_F(TablesTest, OneLongTextNamedManyTimesDoesNotMultiply) {
  TraceBuilder trace;
  const auto text = trace.text(std::string(4000, 'x'));
  for (uint32_t i = 0; i < 3000; ++i) {
    trace.table([&](auto& b) { return trace::CreateModule(b, 0, i, 1, text); });
  }
  const auto run = build(trace);
  size_t copied = 0;
  for (const auto& module : run.processes.at(0).modules) copied += module.path.size();
  EXPECT_LE(copied, (1u << 20) + 4 * run.bytes);
  EXPECT_EQ(run.processes[0].modules.size(), 3000u);
}

TEST_F(TablesTest, MoreProcessesThanAnyRunHasIsRefused) {
  TraceBuilder trace;
  const auto name = trace.text("t");
  for (uint32_t i = 0; i < 20'000; ++i) {
    trace.table([&](auto& b) { return trace::CreateThreadName(b, i, 1, name); });
  }
  EXPECT_THROW(build(trace), io::UserError);
}

TEST_F(TablesTest, OneBrokenFileBesideAGoodOneIsASentence) {
  TraceBuilder good;
  good.process({});
  good.save(directory_ / "good.gwt");
  test::write_file(directory_ / "bad.gwt", {1, 2, 3});
  const auto run = model::build_run(io::find_traces({directory_.path().string()}));
  EXPECT_EQ(run.processes.size(), 1u);
  EXPECT_PRED2(test::only_says, run.damage, "bad.gwt is not a gpuwatch trace");
  std::filesystem::remove(directory_ / "good.gwt");
  EXPECT_THROW(model::build_run(io::find_traces({directory_.path().string()})), io::UserError);
}

TEST_F(TablesTest, WhyRecordingStopped) {
  TraceBuilder trace(trace::kMajorVersion, trace::kMinorVersion, trace::StopReason::SizeLimit);
  trace.process({});
  const model::Run run = build(trace);
  EXPECT_PRED2(test::only_says, run.stopped, "size limit");
  // Nor was its end recorded: it was not killed for that.
  ASSERT_EQ(run.processes.size(), 1u);
  EXPECT_EQ(run.processes[0].end_state, model::EndState::kUnknown);
}

TEST_F(TablesTest, WhyRecordingStoppedInAChild) {
  TraceBuilder trace(trace::kMajorVersion, trace::kMinorVersion, trace::StopReason::Recording,
                     trace::kPageBytes, 1);
  trace.process({});
  trace.process({.ordinal = 1, .pid = 101, .parent_ordinal = 0});
  const model::Run run = build(trace);
  EXPECT_TRUE(run.stopped.empty());
  EXPECT_PRED2(test::only_says, run.stopped_children, "in 1 child process, by a limit for file sizes");
  ASSERT_EQ(run.processes.size(), 2u);
  EXPECT_EQ(run.processes[0].end_state, model::EndState::kKilledOrRunning);
  EXPECT_EQ(run.processes[1].end_state, model::EndState::kUnknown);
}

class SourcesTest : public RunTest {
 protected:
  // `state` and `holder` as since 1.3.
  void source(uint64_t ticks, std::string_view text, trace::SourceState state, std::string_view holder = "") {
    const auto name = trace_.text("cupti"), said = trace_.text(text);
    const auto who = holder.empty() ? 0 : trace_.text(holder);
    trace_.table([&](auto& b) { return trace::CreateSource(b, 0, name, said, ticks, state, who); });
  }
  const model::Process& built() {
    const auto op = trace_.operation("cudaLaunchKernel", trace::OpClass::Launch);
    trace_.thread(0, 5, Slots().host(op, 6000, 9'000'000'000));
    run_ = build(trace_);
    return run_.processes.at(0);
  }
  void SetUp() override { trace_.process({}); }

  model::Run run_;
};

TEST_F(SourcesTest, StateTextAndHolder) {
  source(0, "held by Nsight", trace::SourceState::Held, "Nsight");
  const auto& status = built().sources.at("cupti");
  EXPECT_EQ(status.state, trace::SourceState::Held);
  EXPECT_EQ(status.text, "held by Nsight");
  EXPECT_EQ(status.holder, "Nsight");
  EXPECT_FALSE(status.is_on());
}

TEST_F(SourcesTest, OfAnEarlierTraceOnIsKnownFromItsText) {
  source(0, "on", trace::SourceState::Unknown);
  EXPECT_TRUE(built().sources.at("cupti").is_on());
}

TEST_F(SourcesTest, OfAnEarlierTraceTheHolderIsReadFromItsText) {
  source(0, "held by Nsight", trace::SourceState::Unknown);
  const auto& status = built().sources.at("cupti");
  EXPECT_EQ(status.state, trace::SourceState::Held);
  EXPECT_EQ(status.text, "held by Nsight");
  EXPECT_EQ(status.holder, "Nsight");
}

TEST_F(SourcesTest, OfAnEarlierTraceOtherWordsAreKeptAndNotRead) {
  source(0, "no CUPTI found", trace::SourceState::Unknown);
  const auto& status = built().sources.at("cupti");
  EXPECT_EQ(status.state, trace::SourceState::Unknown);
  EXPECT_EQ(status.text, "no CUPTI found");
  EXPECT_EQ(status.holder, "");
}

TEST_F(SourcesTest, OfANewerTraceAnUnknownStateKeepsItsText) {
  source(0, "half on", static_cast<trace::SourceState>(200));
  const auto& status = built().sources.at("cupti");
  EXPECT_EQ(status.state, trace::SourceState::Unknown);
  EXPECT_EQ(status.text, "half on");
}

TEST_F(SourcesTest, TimeThatWasYieldedIsAddedUpByHolder) {
  trace_.clock(0, 1000, 1000);
  trace_.clock(0, 9'000'000'000, 9'000'000'000);
  source(1000, "on", trace::SourceState::On);
  source(2'000'000'000, "any words", trace::SourceState::Yielded, "torch.profiler");
  source(5'200'000'000, "on", trace::SourceState::On);
  const model::Process& process = built();
  EXPECT_EQ(process.sources.at("cupti").text, "yielded 3.2 s to torch.profiler");
  EXPECT_EQ(process.sources.at("cupti").state, trace::SourceState::Yielded);
  EXPECT_EQ(process.sources.at("cupti").holder, "torch.profiler");
  ASSERT_EQ(process.unobserved.size(), 1u);
  EXPECT_EQ(process.unobserved[0].length(), 3'200'000'000);
}

}  // namespace
}  // namespace gpuwatch
