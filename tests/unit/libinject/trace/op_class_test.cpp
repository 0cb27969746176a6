// SPDX-License-Identifier: Apache-2.0
// Each trait's classes, written out: what a row of op_class.def changes shows here as a change of a whole
// set.
#include "libinject/trace/op_class.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

namespace gpuwatch::trace {
namespace {

using Names = std::set<std::string>;

template <class Predicate>
Names classes(Predicate predicate) {
  Names names;
  for (const OpClass op_class : EnumValuesOpClass())
    if (predicate(op_class)) names.insert(EnumNameOpClass(op_class));
  return names;
}

Names with_detail(DetailKind kind) {
  return classes([kind](OpClass op_class) { return detail_kind(op_class) == kind; });
}

TEST(OpClassTraits, Cuda) {
  EXPECT_EQ(classes(is_cuda),
            (Names{"Launch", "GraphLaunch", "Copy", "Memset", "Sync", "Alloc", "Free", "Capture",
                   "GraphBuild", "Event", "Stream", "StreamWait", "HostFunction", "ModuleLoad"}));
  EXPECT_EQ(classes(enqueues), (Names{"Launch", "GraphLaunch", "Copy", "Memset"}));
  EXPECT_EQ(classes(launches_kernels), (Names{"Launch", "GraphLaunch"}));
  EXPECT_EQ(classes(stalls_on_device), (Names{"Sync", "Copy", "Alloc", "Free"}));
  EXPECT_EQ(classes(wants_callback),
            (Names{"Launch", "GraphLaunch", "Copy", "Memset", "Sync", "Alloc", "Free", "Capture",
                   "GraphBuild", "StreamWait", "HostFunction", "ModuleLoad"}));
  EXPECT_EQ(classes(communicates), (Names{"Collective", "PointToPoint", "CommGroup", "CommLife"}));
  EXPECT_EQ(classes(manages_memory), (Names{"Alloc", "Free"}));
}

TEST(OpClassTraits, WaitsAndFiles) {
  EXPECT_EQ(classes(is_off_cpu), (Names{"Wait", "Poll", "Sleep", "ChildWait", "Read", "Open", "Stat",
                                        "Receive", "Write", "Flush", "Send", "Sync"}));
  EXPECT_EQ(classes(waits_for_thread), (Names{"Wait", "Poll"}));
  EXPECT_EQ(classes(pauses), (Names{"Sleep", "ChildWait"}));
  EXPECT_EQ(classes(reads_input), (Names{"Read", "Open", "Stat", "Receive"}));
  EXPECT_EQ(classes(writes_output), (Names{"Write", "Flush"}));
}

TEST(OpClassTraits, LoadersAndRanges) {
  EXPECT_EQ(classes(takes_batch), (Names{"LoaderNext", "LoaderStart"}));
  EXPECT_EQ(classes(names_loader), (Names{"LoaderNext", "LoaderStart", "IndexSent", "BatchReceived", "Fetch",
                                          "Collate", "PinBatch", "WorkerStart"}));
  EXPECT_EQ(classes(is_transparent), (Names{"Other", "OptimizerStep", "Range", "IndexSent", "BatchReceived",
                                            "WorkerStart", "BatchShape"}));
  EXPECT_EQ(classes(is_range), (Names{"Range", "ProcessRange", "Mark"}));
}

TEST(OpClassTraits, DetailFollowsFromTheClass) {
  EXPECT_EQ(with_detail(DetailKind::kEvent), (Names{"Sync", "Event", "StreamWait"}));
  EXPECT_EQ(with_detail(DetailKind::kIo), (Names{"Wait", "Poll", "Sleep", "Read", "Write", "Open", "Stat",
                                                 "Flush", "Receive", "Send", "ChildWait"}));
  EXPECT_EQ(with_detail(DetailKind::kCpu), (Names{"LoaderNext", "LoaderStart", "Fetch", "Collate", "PinBatch",
                                                  "OptimizerStep", "GarbageCollection", "Checkpoint"}));
  EXPECT_EQ(with_detail(DetailKind::kShape), (Names{"BatchShape"}));
  EXPECT_EQ(with_detail(DetailKind::kRange), (Names{"Range", "ProcessRange", "Mark"}));
  EXPECT_EQ(with_detail(DetailKind::kNone), (Names{"BatchReceived", "WorkerStart"}));
}

// A byte that is no class of the schema: a damaged file, or a newer recorder.
TEST(OpClassTraits, UnknownClassHasNone) {
  for (const int value : {14, 19, 62, 255}) {
    const auto op_class = static_cast<OpClass>(value);
    EXPECT_STREQ(EnumNameOpClass(op_class), "");
    EXPECT_FALSE(is_cuda(op_class) || is_off_cpu(op_class) || is_transparent(op_class));
    EXPECT_EQ(detail_kind(op_class), DetailKind::kCall);
  }
}

// A reader of 1.2 finds the event where CallDetail has `bytes`, and the other way round.
TEST(EventDetail, LiesWhereTheBytesOfACallDetailLie) {
  const EventDetail event(0x1234'5678'9abc'def0, 42, 7, 0);
  CallDetail call;
  static_assert(sizeof event == sizeof call);
  std::memcpy(static_cast<void*>(&call), &event, sizeof call);
  EXPECT_EQ(call.bytes(), event.event());
  EXPECT_EQ(call.caller(), event.caller());
  EXPECT_EQ(call.stream(), event.stream());
}

}  // namespace
}  // namespace gpuwatch::trace
