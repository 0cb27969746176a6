// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/short_paths.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

namespace gpuwatch::page {
namespace {

constexpr std::string_view kEndsPath = " \t\"'`()[]{}<>,;=|";

// Behind these a slash begins a path; behind a letter it divides words ("samples/s").
bool may_precede(char c) {
  return kEndsPath.find(c) != std::string_view::npos || c == ':' || c == '~' || c == '@';
}

// "torch/utils/data/dataloader.py:42" of what follows the folder of all packages; else the last part.
std::string_view short_form(std::string_view path) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"})
    if (const size_t at = path.rfind(folder); at != std::string_view::npos)
      return path.substr(at + folder.size());
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return path.starts_with('/') && slash > 0 ? path.substr(0, slash + 1) : "";
}

}  // namespace

std::vector<std::string> known_folders(const model::Run& run) {
  std::set<std::string> found = {folder_of(run.directory)};
  const auto add_frames = [&](const std::string& text) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const size_t line_number = text.rfind(':', end);
      if (line_number != std::string::npos && line_number > begin)
        found.insert(folder_of(text.substr(begin, line_number - begin)));
      begin = end + 1;
    }
  };
  for (const model::Process& process : run.processes) {
    for (const std::string& path : {process.script, process.executable}) found.insert(folder_of(path));
    for (const model::Mount& mount : process.mounts) found.insert(folder_of(mount.point + "/"));
    for (const model::Loader& loader : process.loaders) {
      found.insert(folder_of(loader.location));
      add_frames(loader.code);
    }
  }
  for (const auto& [id, text] : run.texts) add_frames(text);
  // The others are found without being known.
  std::erase_if(found, [](const std::string& folder) { return folder.find(' ') == std::string::npos; });
  std::vector<std::string> folders(found.begin(), found.end());
  std::ranges::stable_sort(folders, std::greater(), &std::string::size);
  return folders;
}

std::string with_short_paths(std::string text, const std::vector<std::string>& folders) {
  if (text.find('/') == std::string::npos) return text;
  for (const std::string& folder : folders)
    for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at))
      text.erase(at, folder.size());
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const bool is_url = text.compare(at, 2, "//") == 0 && text.compare(at, 3, "///") != 0;
    const bool begins = text[at] == '/' && !is_url && (at == 0 || may_precede(text[at - 1]));
    const size_t end = std::min(text.find_first_of(kEndsPath, at), text.size());
    const std::string_view path(text.data() + at, end - at);
    if (!begins || path.find('/', 1) == std::string_view::npos) {
      result += text[at++];
      continue;
    }
    if (result.ends_with('~')) result.pop_back();
    // More than one of them, as in PATH.
    for (size_t part = 0; part < path.size();) {
      const size_t next = std::min(path.find(":/", part), path.size());
      if (part > 0) result += ':';
      result += short_form(path.substr(part, next - part));
      part = next == path.size() ? next : next + 1;
    }
    at = end;
  }
  return result;
}

void shorten_paths(nlohmann::ordered_json& document, const std::vector<std::string>& folders) {
  if (document.is_string()) {
    document = with_short_paths(document.get<std::string>(), folders);
  } else if (document.is_structured()) {
    for (auto& part : document) shorten_paths(part, folders);
  }
}

}  // namespace gpuwatch::page
