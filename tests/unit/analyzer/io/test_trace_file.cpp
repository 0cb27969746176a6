// SPDX-License-Identifier: Apache-2.0
// The page walk: what is read, what is stepped over, and what is refused with which sentence.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <functional>

#include "analyzer/io/trace_file.h"
#include "analyzer/io/trace_set.h"
#include "analyzer/io/user_error.h"
#include "tests/unit/analyzer/trace_builder.h"

namespace gpuwatch::io {
namespace {

using test::says;
using test::ScratchDirectory;
using test::Slots;
using test::TraceBuilder;

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

Slots some_slots(size_t count) {
  Slots slots;
  for (size_t i = 0; i < count; ++i) slots.host(1, 10 * i, 10 * i + 5);
  return slots;
}

class TraceFileTest : public testing::Test {
 protected:
  std::string path() const { return (directory_ / "a.gwt").string(); }
  std::string refusal_of(const std::vector<uint8_t>& bytes) {
    test::write_file(path(), bytes);
    return refusal([&] { TraceFile file(path()); });
  }
  ScratchDirectory directory_;
};

TEST_F(TraceFileTest, ListsChunksByThreadAndSequence) {
  TraceBuilder trace;
  trace.chunk(0, 7, 1, some_slots(3));
  trace.chunk(0, 7, 0, some_slots(200));  // two pages
  trace.chunk(0, 5, 0, some_slots(1));
  trace.save(path());
  TraceFile file(path());
  ASSERT_EQ(file.chunks().size(), 3u);
  EXPECT_EQ(file.chunks()[0].thread, 5u);
  EXPECT_EQ(file.chunks()[1].sequence, 0u);
  EXPECT_EQ(file.chunks()[1].slot_count, 200u);
  EXPECT_EQ(file.read(file.chunks()[1]).slots.size(), 200 * sizeof(trace::Slot));
  EXPECT_TRUE(file.damage().empty());
  EXPECT_EQ(file.header().major, trace::kMajorVersion);
}

TEST_F(TraceFileTest, StepsOverPagesThatWereClaimedAndNeverLaidDown) {
  TraceBuilder trace;
  trace.chunk(0, 1, 0, some_slots(2));
  trace.empty_pages(16);
  trace.chunk(0, 2, 0, some_slots(2));
  trace.empty_pages(2000);  // beyond the segment
  trace.chunk(0, 3, 0, some_slots(2));
  trace.save(path());
  TraceFile file(path());
  EXPECT_EQ(file.chunks().size(), 3u);
  EXPECT_TRUE(file.damage().empty());
}

TEST_F(TraceFileTest, AHalfWrittenFrameIsOneSentenceAndTheRestIsRead) {
  TraceBuilder trace;
  trace.chunk(0, 1, 0, some_slots(2));
  const size_t broken = trace.pages();
  trace.chunk(0, 2, 0, some_slots(300));
  trace.chunk(0, 3, 0, some_slots(2));
  auto bytes = trace.bytes();
  std::memset(bytes.data() + broken * trace::kPageBytes + 12, 0xff, 40);  // behind prefix and identifier
  test::write_file(path(), bytes);
  TraceFile file(path());
  ASSERT_EQ(file.chunks().size(), 2u);
  EXPECT_EQ(file.chunks()[1].thread, 3u);
  ASSERT_EQ(file.damage().size(), 1u) << file.damage().back();
  EXPECT_PRED2(says, file.damage()[0], "no valid frame");
}

TEST_F(TraceFileTest, HugeLengthsAreDamage) {
  for (const uint32_t claimed :
       {0xffffffffu, 0x7fffffffu, uint32_t{trace::kMaxFramePages * trace::kPageBytes}}) {
    TraceBuilder trace;
    std::vector<uint8_t> page(trace::kPageBytes);
    std::memcpy(page.data(), &claimed, 4);
    trace.frame(page);
    trace.chunk(0, 3, 0, some_slots(2));
    trace.save(path());
    TraceFile file(path());
    EXPECT_EQ(file.chunks().size(), 1u);
    EXPECT_PRED2(test::only_says, file.damage(), "page 1");
  }
}

TEST_F(TraceFileTest, ASlotVectorLongerThanItsFrameIsDamage) {
  TraceBuilder trace;
  trace.chunk(0, 3, 0, some_slots(2));
  auto bytes = trace.bytes();
  const auto* chunk = flatbuffers::GetSizePrefixedRoot<trace::Chunk>(bytes.data() + trace::kPageBytes);
  auto* length = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(chunk->slots()));
  const uint32_t huge = 1'000'000;
  std::memcpy(length, &huge, 4);
  test::write_file(path(), bytes);
  TraceFile file(path());
  EXPECT_TRUE(file.chunks().empty());
  EXPECT_EQ(file.damage().size(), 1u);
}

TEST_F(TraceFileTest, DamageIsBoundedInWords) {
  TraceBuilder trace;
  for (int i = 0; i < 100; ++i) {
    trace.frame(std::vector<uint8_t>(100, 0x77));
    trace.empty_pages(1);
  }
  trace.save(path());
  TraceFile file(path());
  EXPECT_EQ(file.damage().size(), 21u);
  EXPECT_PRED2(says, file.damage().back(), "80 more");
}

TEST_F(TraceFileTest, AFileThatGrowsWhileItIsReadStaysOneMoment) {
  TraceBuilder trace;
  trace.chunk(0, 3, 0, some_slots(4));
  auto bytes = trace.bytes();
  const auto* chunk = flatbuffers::GetSizePrefixedRoot<trace::Chunk>(bytes.data() + trace::kPageBytes);
  auto* length = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(chunk->slots()));
  const auto publish = [&](uint32_t slots) {
    std::memcpy(length, &slots, 4);
    test::write_file(path(), bytes);
  };
  publish(2);
  TraceFile file(path());
  publish(4);
  EXPECT_EQ(file.read(file.chunks()[0]).slots.size(), 2 * sizeof(trace::Slot));
}

TEST_F(TraceFileTest, AFileThatIsCutWhileItIsReadGivesNothing) {
  TraceBuilder trace;
  trace.chunk(0, 3, 0, some_slots(4));
  trace.save(path());
  TraceFile file(path());
  std::filesystem::resize_file(path(), trace::kPageBytes);
  EXPECT_TRUE(file.read(file.chunks()[0]).slots.empty());
}

TEST_F(TraceFileTest, HolesCostNothing) {
  TraceBuilder trace;
  trace.chunk(0, 3, 0, some_slots(4));
  trace.save(path());
  std::filesystem::resize_file(path(), uint64_t{1} << 40);
  TraceFile file(path());
  EXPECT_EQ(file.chunks().size(), 1u);
}

TEST_F(TraceFileTest, RefusesWhatItCannotRead) {
  EXPECT_PRED2(says, refusal_of({}), "a.gwt");
  EXPECT_PRED2(says, refusal_of({}), "empty");
  EXPECT_PRED2(says, refusal_of(std::vector<uint8_t>(5000, 'x')), "not a gpuwatch trace");
  EXPECT_PRED2(says, refusal_of(std::vector<uint8_t>(3, 1)), "not a gpuwatch trace");
  auto bytes = TraceBuilder().bytes();
  bytes.resize(20);
  EXPECT_PRED2(says, refusal_of(bytes), "cut short or damaged");
  EXPECT_PRED2(says, refusal_of(TraceBuilder(1, 0, trace::StopReason::Recording, 512).bytes()),
               "impossible header");
  EXPECT_PRED2(says, refusal([&] { TraceFile file(directory_.path().string()); }), "not a regular file");
  EXPECT_PRED2(says, refusal([&] { TraceFile file((directory_ / "none.gwt").string()); }), "No such file");
  ASSERT_EQ(mkfifo((directory_ / "fifo.gwt").c_str(), 0600), 0);
  EXPECT_PRED2(says, refusal([&] { TraceFile file((directory_ / "fifo.gwt").string()); }),
               "not a regular file");
}

TEST_F(TraceFileTest, RefusesANewerMajorVersionAndReadsANewerMinorOne) {
  EXPECT_PRED2(says, refusal_of(TraceBuilder(trace::kMajorVersion + 1).bytes()), "version 2.");
  EXPECT_PRED2(says, refusal_of(TraceBuilder(trace::kMajorVersion + 1).bytes()), "newer");
  TraceBuilder newer(trace::kMajorVersion, trace::kMinorVersion + 1);
  flatbuffers::FlatBufferBuilder unknown;
  unknown.FinishSizePrefixed(trace::CreateTableChunk(unknown, 0, 0), "GWTZ");
  newer.frame({unknown.GetBufferPointer(), unknown.GetBufferPointer() + unknown.GetSize()});
  newer.chunk(0, 3, 0, some_slots(1));
  newer.save(path());
  TraceFile file(path());
  EXPECT_EQ(file.chunks().size(), 1u);
  EXPECT_TRUE(file.damage().empty());
}

TEST_F(TraceFileTest, MessagesAreOnePrintableLine) {
  const auto hostile = directory_ / "a\x1b[31m\n.gwt";
  test::write_file(hostile, {1, 2, 3, 4});
  const auto sentence = refusal([&] { TraceFile file(hostile.string()); });
  EXPECT_FALSE(says(sentence, "\x1b"));
  EXPECT_FALSE(says(sentence, "\n"));
  EXPECT_PRED2(says, sentence, "not a gpuwatch trace");
}

class TraceSetTest : public testing::Test {
 protected:
  TraceSetTest() : before_(std::filesystem::current_path()) {
    unsetenv("GPUWATCH_OUT");
    unsetenv("SLURM_TMPDIR");
    setenv("TMPDIR", (directory_ / "tmp").c_str(), 1);
    std::filesystem::create_directories(directory_ / "here");
    std::filesystem::current_path(directory_ / "here");
  }
  ~TraceSetTest() override {
    std::filesystem::current_path(before_);
    unsetenv("TMPDIR");
  }
  void run(const std::string& place, const char* file = "h.0.1.2.gwt") {
    std::filesystem::create_directories(directory_ / place);
    TraceBuilder().save(directory_ / place / file);
  }
  ScratchDirectory directory_;
  std::filesystem::path before_;
};

TEST_F(TraceSetTest, TakesTheNewestRunHere) {
  run("here/gpuwatch-train-1");
  run("here/gpuwatch-train-2");
  std::filesystem::create_directories(directory_ / "here/gpuwatch-train-3");  // no trace in it
  std::filesystem::last_write_time(directory_ / "here/gpuwatch-train-1",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const auto set = find_traces({});
  EXPECT_EQ(set.directory, "gpuwatch-train-2");
  EXPECT_EQ(set.files, (std::vector<std::string>{"gpuwatch-train-2/h.0.1.2.gwt"}));
}

TEST_F(TraceSetTest, FallsBackToWhereTheRecorderFallsBack) {
  run("tmp/gpuwatch-train-1");
  EXPECT_EQ(find_traces({}).directory, directory_ / "tmp/gpuwatch-train-1");
  run("chosen");
  setenv("GPUWATCH_OUT", (directory_ / "chosen").c_str(), 1);
  EXPECT_EQ(find_traces({}).directory, directory_ / "chosen");
  unsetenv("GPUWATCH_OUT");
}

TEST_F(TraceSetTest, FilesAndDirectoriesMayBeNamed) {
  run("r", "a.gwt");
  run("r", "b.gwt");
  const auto a = (directory_ / "r/a.gwt").string();
  EXPECT_EQ(find_traces({a}).files, (std::vector<std::string>{a}));
  EXPECT_EQ(find_traces({(directory_ / "r").string(), a}).files.size(), 2u);
}

TEST_F(TraceSetTest, SaysWhatIsMissing) {
  setenv("TMPDIR", (directory_ / "nothing").c_str(), 1);
  EXPECT_PRED2(says, refusal([] { find_traces({"nowhere"}); }), "nowhere");
  EXPECT_PRED2(says, refusal([] { find_traces({"nowhere"}); }), "does not exist");
  std::filesystem::create_directories(directory_ / "empty");
  EXPECT_PRED2(says, refusal([&] { find_traces({(directory_ / "empty").string()}); }), "no trace");
}

}  // namespace
}  // namespace gpuwatch::io
