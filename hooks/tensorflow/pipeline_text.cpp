// SPDX-License-Identifier: Apache-2.0
#include "hooks/tensorflow/pipeline_text.h"

#include <cstring>

namespace gpuwatch::hooks::tensorflow {

namespace {

struct Line {
  const char* at;
  size_t length;

  bool starts_with(const char* words) const noexcept {
    const size_t count = std::strlen(words);
    return length >= count && std::memcmp(at, words, count) == 0;
  }
};

uint64_t number_at(const char* at, const char* end) noexcept {
  uint64_t value = 0;
  for (; at < end && *at >= '0' && *at <= '9'; ++at) value = value * 10 + static_cast<uint64_t>(*at - '0');
  return value;
}

class Reader {
 public:
  Reader(StageCounts* stages, size_t capacity) noexcept : stages_(stages), capacity_(capacity) {}

  void read(const Line& line) noexcept {
    if (line.length > 0 && *line.at != ' ') {
      begin_node(line);
    } else if (stage_) {
      add(line, "  num_elements=", stage_->elements);
      add(line, "  bytes_produced=", stage_->bytes_produced);
      add(line, "  bytes_consumed=", stage_->bytes_consumed);
      add(line, "  buffered_bytes=", stage_->bytes_held);
      add(line, "  processing_time=", stage_->processing_ns);
      if (line.starts_with("  inputs={")) note_inputs(line);
    }
  }
  Pipeline pipeline() const noexcept { return {count_, is_whole_}; }

 private:
  struct Node {
    uint64_t id;
    uint32_t feeds;  // index of a stage
  };
  static constexpr size_t kNodes = 256;

  void begin_node(const Line& line) noexcept {
    stage_ = nullptr;
    const auto* mark = static_cast<const char*>(memmem(line.at, line.length, "(id:", 4));
    if (!mark) return;
    const Node* node = find_node(number_at(mark + 4, line.at + line.length));
    if (node || count_ == 0)
      stage_ = find_or_add({line.at, static_cast<size_t>(mark - line.at)}, node ? node->feeds : 0);
  }

  StageCounts* find_or_add(const Line& name, uint32_t feeds) noexcept {
    const size_t length = name.length < sizeof StageCounts::name ? name.length : sizeof StageCounts::name - 1;
    for (size_t i = 1; i < count_; ++i)
      if (stages_[i].feeds == feeds && std::strlen(stages_[i].name) == length &&
          std::memcmp(stages_[i].name, name.at, length) == 0)
        return &stages_[i];
    if (count_ == capacity_) {
      is_whole_ = false;
      return nullptr;
    }
    StageCounts& stage = stages_[count_++];
    stage = {};
    std::memcpy(stage.name, name.at, length);
    stage.feeds = feeds;
    return &stage;
  }

  const Node* find_node(uint64_t id) const noexcept {
    for (size_t i = 0; i < node_count_; ++i)
      if (nodes_[i].id == id) return &nodes_[i];
    return nullptr;
  }

  void note_inputs(const Line& line) noexcept {
    const char* const end = line.at + line.length;
    const char* at = line.at;
    for (;;) {
      at = static_cast<const char*>(memmem(at, static_cast<size_t>(end - at), "(id:", 4));
      if (!at) return;
      if (node_count_ == kNodes) break;
      at += 4;
      nodes_[node_count_++] = {number_at(at, end), static_cast<uint32_t>(stage_ - stages_)};
    }
    is_whole_ = false;
  }

  static void add(const Line& line, const char* field, uint64_t& sum) noexcept {
    if (line.starts_with(field)) sum += number_at(line.at + std::strlen(field), line.at + line.length);
  }

  StageCounts* const stages_;
  const size_t capacity_;
  size_t count_ = 0;
  StageCounts* stage_ = nullptr;  // of the node whose fields follow
  Node nodes_[kNodes];            // named as inputs so far
  size_t node_count_ = 0;
  bool is_whole_ = true;
};

}  // namespace

Pipeline read_pipeline(const char* text, size_t length, StageCounts* stages, size_t capacity) noexcept {
  Reader reader(stages, capacity);
  const char* const end = text + length;
  while (text < end) {
    const auto* next = static_cast<const char*>(std::memchr(text, '\n', static_cast<size_t>(end - text)));
    const char* const line_end = next ? next : end;
    reader.read({text, static_cast<size_t>(line_end - text)});
    text = line_end + 1;
  }
  return reader.pipeline();
}

}  // namespace gpuwatch::hooks::tensorflow
