// SPDX-License-Identifier: Apache-2.0
// Compressed traces as tools leave them: of several gzip members (pigz, bgzip, cat), padded, cut off.
#include "analyzer/io/kineto_file.h"
#include "analyzer/io/trace_set.h"
#include "tests/unit/analyzer/scratch_file.h"

namespace gpuwatch::io {
namespace {

using test::says;

class KinetoMembersTest : public test::FileTest {
 protected:
  static std::string json(int kernels) {
    std::string text = R"({"traceEvents": [)";
    for (int i = 0; i < kernels; ++i)
      text += R"({"ph": "X", "cat": "kernel", "name": "k", "ts": )" + std::to_string(i) + R"(, "dur": 1},)";
    text.back() = ']';
    return text + "}";
  }
  std::string bytes_of(const std::string& text) const {
    std::ifstream file(save_gzip(text), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Members that begin anywhere in the text, as if it had been compressed in blocks.
  std::string members(const std::string& text, size_t count) const {
    std::string all;
    for (size_t i = 0; i < count; ++i)
      all += bytes_of(
          text.substr(i * text.size() / count, (i + 1) * text.size() / count - i * text.size() / count));
    return all;
  }
};

TEST_F(KinetoMembersTest, SeveralMembersAreOneText) {
  const std::string packed = members(json(5000), 7);
  EXPECT_EQ(read_kineto(save(packed, "members.json.gz")).events.size(), 5000);
  EXPECT_EQ(read_kineto(save(packed + std::string(512, '\0'), "padded.json.gz")).events.size(), 5000);
}

TEST_F(KinetoMembersTest, ACutOffMemberIsNamed) {
  const std::string packed = members(json(5000), 3), last = members(json(5000), 3);
  const std::string in_member = save(packed.substr(0, packed.size() - 40), "in.json.gz");
  EXPECT_TRUE(says(error_of([&] { read_kineto(in_member); }), "is cut off"));
  // Between two members the archive is whole, its text is not.
  const std::string text = json(5000);
  const std::string between = save(bytes_of(text.substr(0, text.size() / 2)), "between.json.gz");
  EXPECT_TRUE(says(error_of([&] { read_kineto(between); }), "is cut off"));
  const std::string trailer = save(bytes_of(text).substr(0, bytes_of(text).size() - 4), "trailer.json.gz");
  EXPECT_TRUE(says(error_of([&] { read_kineto(trailer); }), "is cut off"));
}

TEST_F(KinetoMembersTest, FoldersAreLookedThroughForProfiles) {
  save("{}", "config.json");
  EXPECT_EQ(find_traces({directory_.string()}).files.size(), 1);  // by any name where none has the usual one
  save("", "host_7.100.pt.trace.json");
  save("", "host_7.200.pt.trace.json.gz");
  const TraceSet set = find_traces({directory_.string()});
  ASSERT_EQ(set.files.size(), 2);
  EXPECT_TRUE(says(set.files[0], "host_7.100"));
  std::filesystem::create_directories(directory_ / "gpuwatch-train-1");
  save("", "gpuwatch-train-1/1.gwt");
  EXPECT_EQ(find_traces({directory_.string()}).files.size(), 2);
  std::filesystem::remove(directory_ / "host_7.100.pt.trace.json");
  std::filesystem::remove(directory_ / "host_7.200.pt.trace.json.gz");
  EXPECT_TRUE(says(find_traces({directory_.string()}).files.at(0), "gpuwatch-train-1"));  // not config.json
}

}  // namespace
}  // namespace gpuwatch::io
