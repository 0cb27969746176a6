// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/kept_predictions.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>

namespace {

using namespace gpuwatch::trial;
using gpuwatch::predict::Prediction;
namespace fs = std::filesystem;

KeptPrediction tried(double achieved_ms, const char* setting = "num_workers") {
  return {.day = "2026-01-31",
          .finding = "dataloader-workers",
          .setting = setting,
          .value = "4",
          .before_ms = 100,
          .predicted_ms = {48, 50, 52},
          .achieved_ms = achieved_ms};
}

Prediction step_50ms() {
  return {.now = 100, .value = {48, 50, 52}, .speedup = {100 / 52., 2, 100 / 48.}, .assumptions = {}};
}

class Kept : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/gpuwatch-kept-XXXXXX";
    home_ = mkdtemp(pattern);
    setenv("XDG_DATA_HOME", home_.c_str(), 1);
    unsetenv("GPUWATCH_KEEP");
  }
  void TearDown() override {
    unsetenv("XDG_DATA_HOME");
    unsetenv("GPUWATCH_KEEP");
    fs::remove_all(home_);
  }

  fs::path file() const { return home_ / "gpuwatch" / "predictions.jsonl"; }
  std::string text() const {
    std::ifstream stream(file());
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void append(const std::string& text) const {
    std::ofstream(file(), std::ios::app | std::ios::binary) << text;
  }

  fs::path home_;
};

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

TEST_F(Kept, IsReadBack) {
  EXPECT_TRUE(kept_predictions().empty());
  KeptPrediction one = tried(51);
  one.is_cpu_job = one.was_disturbed = true;
  ASSERT_TRUE(keep(one));
  ASSERT_TRUE(keep(tried(70)));
  const auto kept = kept_predictions();
  ASSERT_EQ(kept.size(), 2);
  EXPECT_EQ(kept[0].day, "2026-01-31");
  EXPECT_EQ(kept[0].finding, "dataloader-workers");
  EXPECT_EQ(kept[0].setting + "=" + kept[0].value, "num_workers=4");
  EXPECT_TRUE(kept[0].is_cpu_job && kept[0].was_disturbed && kept[0].came_true());
  EXPECT_EQ(kept[0].before_ms, 100);
  EXPECT_EQ(kept[0].predicted_ms.low, 48);
  EXPECT_EQ(kept[1].achieved_ms, 70);
  EXPECT_FALSE(kept[1].is_cpu_job || kept[1].was_disturbed || kept[1].came_true());
}

TEST_F(Kept, IsForItsOwnerOnly) {
  const mode_t before = umask(0);
  ASSERT_TRUE(keep(tried(51)));
  umask(before);
  EXPECT_EQ(mode_of(file()), 0600);
  EXPECT_EQ(mode_of(file().parent_path()), 0700);
}

TEST_F(Kept, DayOnlyAndNoPaths) {
  KeptPrediction one = tried(51);
  one.day = "";
  one.finding = "/home/someone/train.py";
  one.value = "secret name\n{";
  ASSERT_TRUE(keep(one));
  EXPECT_EQ(text().find("someone"), std::string::npos);
  EXPECT_EQ(text().find("secret"), std::string::npos);
  const auto kept = kept_predictions();
  ASSERT_EQ(kept.size(), 1);
  EXPECT_EQ(kept[0].day.size(), 10);
  EXPECT_EQ(kept[0].value, "");
}

TEST_F(Kept, OptOut) {
  ASSERT_TRUE(keep(tried(51)));
  setenv("GPUWATCH_KEEP", "0", 1);
  EXPECT_FALSE(keep(tried(51)));
  EXPECT_TRUE(kept_predictions().empty());
  setenv("GPUWATCH_KEEP", "1", 1);
  EXPECT_EQ(kept_predictions().size(), 1);
}

TEST_F(Kept, DefaultFolder) {
  const char* before = getenv("HOME");
  const std::string home = before ? before : "";
  setenv("HOME", home_.c_str(), 1);
  for (const char* data : {"", "relative/path"}) {
    setenv("XDG_DATA_HOME", data, 1);
    EXPECT_TRUE(keep(tried(51)));
  }
  EXPECT_TRUE(fs::exists(home_ / ".local/share/gpuwatch/predictions.jsonl"));
  EXPECT_EQ(kept_predictions().size(), 2);
  unsetenv("HOME");
  unsetenv("XDG_DATA_HOME");
  EXPECT_FALSE(keep(tried(51)));
  if (before) setenv("HOME", home.c_str(), 1);
}

TEST_F(Kept, LinksAreNotFollowed) {
  fs::create_directory(home_ / "gpuwatch");
  std::ofstream(home_ / "precious") << "precious";
  fs::create_symlink(home_ / "precious", file());
  EXPECT_FALSE(keep(tried(51)));
  EXPECT_TRUE(kept_predictions().empty());
  fs::remove(file());
  fs::create_hard_link(home_ / "precious", file());
  EXPECT_FALSE(keep(tried(51)));
  EXPECT_EQ(fs::file_size(home_ / "precious"), 8);
  fs::remove_all(home_ / "gpuwatch");
  fs::create_directory(home_ / "elsewhere");
  fs::create_directory_symlink(home_ / "elsewhere", home_ / "gpuwatch");
  EXPECT_FALSE(keep(tried(51)));
  EXPECT_TRUE(fs::is_empty(home_ / "elsewhere"));
}

TEST_F(Kept, OnlyARegularFileOfOurs) {
  fs::create_directory(home_ / "gpuwatch");
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);  // must not block either
  EXPECT_FALSE(keep(tried(51)));
  EXPECT_TRUE(kept_predictions().empty());
  fs::remove(file());
  fs::create_directory(file());
  EXPECT_FALSE(keep(tried(51)));
  fs::remove(file());
  ASSERT_TRUE(keep(tried(51)));
  chmod(file().c_str(), 0666);
  EXPECT_FALSE(keep(tried(51)));
  EXPECT_TRUE(kept_predictions().empty());
  chmod(file().c_str(), 0600);
  chmod(file().parent_path().c_str(), 0777);
  EXPECT_FALSE(keep(tried(51)));
}

TEST_F(Kept, NotOfImpossibleNumbers) {
  for (const double bad : {0., -1., std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_FALSE(keep(tried(bad)));
  KeptPrediction one = tried(51);
  one.predicted_ms = {52, 50, 48};
  EXPECT_FALSE(keep(one));
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(Kept, BadLinesAreSkipped) {
  ASSERT_TRUE(keep(tried(51)));
  std::string good = text();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    return line.replace(line.find(from), from.size(), to);
  };
  append("\n{\n[1]\nnull\n" + std::string(3, '\0') + "\n" + std::string(3000, '[') + "\n");
  append(std::string(100000, '{'));
  append("\n");
  append(changed("\"format\":1", "\"format\":2") + changed("51.0", "\"51\"") + changed("51.0", "-1") +
         changed("51.0", "1e999") + changed("51.0", "0") + changed("false", "0") +
         changed("4\"", "\\u001b[31m\"") + changed("\"day\"", "\"d\""));
  append(changed("51.0", "49.0,\"later\":{\"a\":[]}"));  // of a later version: known fields count
  append(good.substr(0, good.size() / 2));               // cut short
  const auto kept = kept_predictions();
  ASSERT_EQ(kept.size(), 2);
  EXPECT_EQ(kept[1].achieved_ms, 49);
}

TEST_F(Kept, OnlyTheEndOfALongFile) {
  ASSERT_TRUE(keep(tried(51)));
  const std::string line = text();
  std::string many;
  while (many.size() < (1 << 20)) many += line;
  append(many);
  const size_t read = kept_predictions().size();
  EXPECT_LE(read, (256 << 10) / line.size());
  EXPECT_GE(read, (256 << 10) / line.size() - 1);
}

TEST_F(Kept, ConcurrentLinesDoNotMix) {
  const auto keep_many = [] {
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(keep(tried(51)));
  };
  std::thread one(keep_many), other(keep_many);
  one.join();
  other.join();
  EXPECT_EQ(kept_predictions().size(), 400);
}

TEST(CameTrue, IsCountedOfThreeOrMore) {
  std::vector<KeptPrediction> kept{tried(50), tried(70)};
  EXPECT_EQ(came_true_words(kept), "");
  kept.push_back(tried(70));
  kept.back().was_disturbed = true;
  EXPECT_EQ(came_true_words(kept), "");
  kept.push_back(tried(48));
  EXPECT_EQ(came_true_words(kept), "2 of 3 earlier predictions on this machine came true");
}

TEST(OfKind, LoaderSettingsAreOneKind) {
  std::vector<KeptPrediction> kept{tried(1, "num_workers"), tried(2, "in_order"), tried(3, "pin_memory"),
                                   tried(4, "OMP_NUM_THREADS"), tried(5)};
  kept.back().is_cpu_job = true;
  EXPECT_EQ(of_kind(kept, "prefetch_factor", false).size(), 2);
  EXPECT_EQ(of_kind(kept, "pin_memory", false).size(), 1);
  EXPECT_EQ(of_kind(kept, "num_workers", true).size(), 1);
  EXPECT_TRUE(of_kind(kept, "batch_size", false).empty());
}

TEST(Widened, OnlyByAClearBias) {
  std::vector<KeptPrediction> kept(4, tried(60));
  EXPECT_EQ(widened(step_50ms(), kept).value.high, 52);  // too few
  kept.push_back(tried(500));
  kept.back().was_disturbed = true;
  EXPECT_EQ(widened(step_50ms(), kept).value.high, 52);
  kept.assign(5, tried(51));
  EXPECT_FALSE(observed_bias(kept));
  EXPECT_EQ(widened(step_50ms(), kept).assumptions.size(), 0);
}

TEST(Widened, NeverNarrowerAndNotShifted) {
  const std::vector<KeptPrediction> slower(5, tried(60)), faster(5, tried(40));
  const Prediction up = widened(step_50ms(), slower), down = widened(step_50ms(), faster);
  EXPECT_NEAR(up.value.high, 60, 1e-9);
  EXPECT_EQ(up.value.low, 48);
  EXPECT_EQ(up.value.expected, 50);
  EXPECT_NEAR(up.speedup.low, 100 / 60., 1e-9);
  EXPECT_EQ(up.speedup.expected, 2);
  ASSERT_EQ(up.assumptions.size(), 1);
  EXPECT_NE(up.assumptions[0].find("last 5 predictions"), std::string::npos);
  EXPECT_NE(up.assumptions[0].find("1.20x"), std::string::npos);
  EXPECT_NEAR(down.value.low, 40, 1e-9);
  EXPECT_EQ(down.value.high, 52);
  EXPECT_NEAR(down.speedup.high, 2.5, 1e-9);
  const Prediction wide{.now = 100, .value = {30, 50, 90}, .speedup = {}, .assumptions = {}};
  EXPECT_EQ(widened(wide, slower).value.high, 90);
}

TEST(Widened, ThroughputTheOtherWay) {
  const std::vector<KeptPrediction> slower(5, tried(60));
  const Prediction before{
      .metric = "samples_per_s", .now = 100, .value = {190, 200, 210}, .speedup = {1.9, 2, 2.1}};
  const Prediction after = widened(before, slower);
  EXPECT_NEAR(after.value.low, 200 / 1.2, 1e-9);
  EXPECT_EQ(after.value.high, 210);
  EXPECT_NEAR(after.speedup.low, 2 / 1.2, 1e-9);
}

TEST(Widened, OldPredictionsDoNotCount) {
  std::vector<KeptPrediction> kept(40, tried(60));
  kept.insert(kept.end(), 20, tried(50));
  EXPECT_FALSE(observed_bias(kept));
}

}  // namespace
