// SPDX-License-Identifier: Apache-2.0
// What a job writes on an overlay is gone afterwards, byte for byte, whatever path it writes to.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "analyzer/trial/overlay.h"
#include "tests/unit/analyzer/scratch_file.h"

namespace gpuwatch::trial {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::map<std::string, std::string> snapshot(const fs::path& folder) {
  std::map<std::string, std::string> seen;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    seen[entry.path()] = entry.is_regular_file() ? content(entry) : "directory";
  return seen;
}

class OverlayTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::optional<std::string> reason = cannot_overlay())
      GTEST_SKIP() << "no overlay is possible: " << *reason;
    for (const char* place : {"/tmp", "/var/tmp"}) {
      std::string folder = std::string(place) + "/gpuwatch-test-XXXXXX";
      ASSERT_TRUE(mkdtemp(folder.data()));
      folders_.emplace_back(folder);
      fs::create_directories(folders_.back() / "run/old");
      std::ofstream(folders_.back() / "last.pt") << "trained for a week";
      std::ofstream(folders_.back() / "log") << "epoch 1\n";
      std::ofstream(folders_.back() / "gone") << "delete me";
      std::ofstream(folders_.back() / "run/old/weights") << "old weights";
    }
  }
  void TearDown() override {
    for (const fs::path& folder : folders_) fs::remove_all(folder);
  }

  // Runs a shell script on an overlay, in the working directory of the test; its exit code.
  int run(
      Overlay& overlay, const std::string& script, const std::function<void()>& meanwhile = [] {}) {
    pid_t child = fork();
    if (child == 0) {
      if (std::string error = overlay.enter(); !error.empty()) _exit(99);
      execl("/bin/sh", "sh", "-ec", script.c_str(), nullptr);
      _exit(98);
    }
    EXPECT_EQ(overlay.wait_until_entered(), "");
    meanwhile();
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  OverlayPlan plan() const {
    OverlayPlan plan;
    plan.likely = likely_written({});
    for (const fs::path& folder : folders_) plan.likely.push_back(folder);
    return plan;
  }

  std::vector<fs::path> folders_;
};

// In a directory that a test works in.
class Inside {
 public:
  explicit Inside(const fs::path& folder) : before_(fs::current_path()) { fs::current_path(folder); }
  ~Inside() { fs::current_path(before_); }

 private:
  fs::path before_;
};

constexpr const char* kDestroy =
    "echo new > last.pt; echo epoch 2 >> log; rm gone; mkdir -p deep/er; echo x > deep/er/x; "
    "mv run moved; rm moved/old/weights; test \"$(cat log)\" = 'epoch 1\nepoch 2'; chmod 000 deep/er";

TEST_F(OverlayTest, DropsWhatAJobWrites) {
  for (const fs::path& folder : folders_) {
    Inside inside(folder);
    auto before = snapshot(folder);
    Overlay overlay(plan());
    EXPECT_EQ(run(overlay, kDestroy), 0);
    EXPECT_EQ(snapshot(folder), before);
    EXPECT_EQ(overlay.remove(), "");
  }
}

TEST_F(OverlayTest, CoversHomeAndTemporaryFoldersFromAnotherDirectory) {
  auto before = std::pair(snapshot(folders_[0]), snapshot(folders_[1]));
  std::string script;
  for (const fs::path& folder : folders_) script += "cd " + folder.string() + "; " + kDestroy + "; ";
  script += "echo 1 > /tmp/gpuwatch-test-stray; echo 1 > /var/tmp/gpuwatch-test-stray; ";
  Overlay overlay(plan());
  EXPECT_EQ(run(overlay, script + "[ ! -w $HOME ] || echo 1 > $HOME/gpuwatch-test-stray"), 0);
  EXPECT_EQ(std::pair(snapshot(folders_[0]), snapshot(folders_[1])), before);
  for (std::string place : {std::string("/tmp"), std::string("/var/tmp"), std::string(std::getenv("HOME"))})
    EXPECT_FALSE(fs::exists(place + "/gpuwatch-test-stray"));
}

TEST_F(OverlayTest, RefusesWritesToTheRootDirectory) {
  Overlay overlay({});
  EXPECT_NE(run(overlay, "echo 1 > /gpuwatch-test-stray"), 0);
  EXPECT_FALSE(fs::exists("/gpuwatch-test-stray"));
}

// In a mount namespace of the test: 0 when the overlay kept the mounts' files, 77 without privileges.
int try_with_mounts(const fs::path& folder, const std::function<int(Overlay&, const std::string&)>& run) {
  if (unshare(CLONE_NEWNS) != 0) return 77;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 1;
  const fs::path inner = folder / "a b", read_only = folder / "read-only";
  for (const fs::path& point : {inner, read_only}) {
    fs::create_directory(point);
    if (mount("test", point.c_str(), "tmpfs", 0, "size=1m") != 0) return 2;
    std::ofstream(point / "file") << "real";
  }
  if (mount(nullptr, read_only.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) return 3;
  Overlay overlay({});
  std::string script = "cd " + folder.string() +
                       "; test $(cat read-only/file) = real; echo 1 > 'a b/file'; " +
                       "! echo 1 > read-only/file; echo 1 > log";
  if (run(overlay, script) != 0) return 4;
  if (content(inner / "file") != "real" || content(read_only / "file") != "real") return 5;
  return overlay.what_was_written().files == 2 && overlay.read_only().empty() ? 0 : 6;
}

TEST_F(OverlayTest, CoversMountsBelowCoveredDirectories) {
  pid_t child = fork();
  if (child == 0)
    _exit(try_with_mounts(
        folders_[0], [this](Overlay& overlay, const std::string& script) { return run(overlay, script); }));
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(content(folders_[0] / "log"), "epoch 1\n");
}

TEST_F(OverlayTest, ReportsWhatWasWritten) {
  Inside inside(folders_[0]);
  Overlay overlay(plan());
  run(overlay,
      "mkdir checkpoints; head -c 3000 /dev/zero > checkpoints/last.pt; echo 2 >> log; rm gone; "
      "mkdir __pycache__; echo 1 > __pycache__/train.pyc");
  Written written = overlay.what_was_written();
  EXPECT_EQ(written.files, 2u);
  EXPECT_EQ(written.bytes, 3010u);
  EXPECT_EQ(written.largest, (std::vector<std::string>{"checkpoints/last.pt", "log"}));
  EXPECT_EQ(written_words(written),
            "the trial wrote 2 files (3.0 kB: checkpoints/last.pt, log), which were dropped");
  EXPECT_EQ(written_words({}), "");
}

TEST_F(OverlayTest, LeavesKeptDirectoriesReal) {
  fs::path kept = folders_[0] / "run directory";
  fs::create_directory(kept);
  std::ofstream(kept / "trace") << std::string(4096, '-');
  OverlayPlan with_kept = plan();
  with_kept.kept = {kept};
  Overlay overlay(with_kept);
  // python3 maps the file MAP_SHARED by default, and waits until the test has seen what it wrote.
  std::string script = "cd '" + kept.string() +
                       "'; echo 1 > ../log; echo 1 > file; python3 -c '"
                       "import mmap, os, time; f = open(\"trace\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); "
                       "m[0:4] = b\"live\"\nwhile not os.path.exists(\"seen\"): time.sleep(0.01)'";
  int code = run(overlay, script, [&] {
    int fd = open((kept / "trace").c_str(), O_RDONLY);
    auto* map = static_cast<char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
    bool is_seen = false;
    for (int i = 0; i < 3000 && !is_seen; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      is_seen = std::string_view(map, 4) == "live";
    }
    EXPECT_TRUE(is_seen);
    EXPECT_TRUE(fs::exists(kept / "file"));
    std::ofstream(kept / "seen") << "yes";
    munmap(map, 4096);
    close(fd);
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(content(folders_[0] / "log"), "epoch 1\n");
  EXPECT_EQ(overlay.what_was_written().files, 1u);
}

TEST_F(OverlayTest, RemovesItsScratchFoldersAndNothingElse) {
  fs::path scratch = folders_[1] / "scratch";
  fs::create_directory(scratch);
  std::string script = "cd " + folders_[0].string() + "; ln -s " + folders_[1].string() + " link; rm gone; " +
                       "mkdir -p a/b; echo 1 > a/b/c; chmod 000 a/b a";
  OverlayPlan with_scratch = plan();
  with_scratch.scratch = scratch;
  auto before = snapshot(folders_[1]);
  {
    Overlay overlay(with_scratch);
    EXPECT_EQ(run(overlay, script), 0);
    EXPECT_FALSE(fs::is_empty(scratch));
  }
  EXPECT_EQ(snapshot(folders_[1]), before);
}

TEST_F(OverlayTest, SaysWhatIsMissing) {
  OverlayPlan wrong;
  wrong.kept = {"/nonexistent/run"};
  std::string sentence;
  try {
    Overlay overlay(wrong);
  } catch (const io::UserError& error) {
    sentence = error.what();
  }
  EXPECT_EQ(sentence, "cannot open /nonexistent/run: No such file or directory");
}

TEST(LikelyWritten, FindsPathsInArguments) {
  std::vector<std::string> paths = likely_written({"python", "train.py", "--out=/srv/out", "/data/x/../y"});
  for (const char* path : {"/srv/out", "/data/y", "/tmp"})
    EXPECT_NE(std::ranges::find(paths, path), paths.end()) << path;
}

}  // namespace
}  // namespace gpuwatch::trial
