// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/manual.h"

#include <fmt/format.h>

namespace gpuwatch::cli {

namespace {

// A line that starts with a dot or an apostrophe would be a request, a bare hyphen becomes a typographic one.
std::string roff(const std::string& text) {
  std::string out;
  for (char c : text) {
    const bool begins_line = out.empty() || out.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string item(const OptionWords& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff(name));
  if (!option.value.empty()) names += fmt::format(" \\fI{}\\fR", roff(option.value));
  return fmt::format(".TP\n{}\n{}\n", names, roff(option.description));
}

std::string synopsis(const CommandWords& command) {
  std::string out = fmt::format(".SS gpuwatch {}", roff(command.name));
  if (!command.options.empty()) out += " [options]";
  for (const OptionWords& operand : command.operands) out += " " + roff(operand.names[0]);
  return out + "\n";
}

std::string section(const CommandWords& command) {
  std::string out = synopsis(command) + roff(command.description) + "\n";
  for (const OptionWords& operand : command.operands) out += item(operand);
  for (const OptionWords& option : command.options) out += item(option);
  if (!command.footer.empty()) out += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.footer));
  return out;
}

}  // namespace

std::string manual(const std::vector<CommandWords>& table, const std::string& version) {
  std::string out = fmt::format(
      ".TH GPUWATCH 1 \"\" \"gpuwatch {}\" \"User Commands\"\n"
      ".SH NAME\ngpuwatch \\- {}\n"
      ".SH SYNOPSIS\n\\fBgpuwatch run\\fR [\\fIoptions\\fR] python train.py\n.br\n"
      "\\fBgpuwatch\\fR \\fIcommand\\fR [\\fIoptions\\fR]\n.SH OPTIONS\n",
      roff(version), roff(table[0].description));
  for (const OptionWords& option : table[0].options) out += item(option);
  out += ".SH COMMANDS\n";
  for (size_t i = 1; i < table.size(); ++i) out += section(table[i]);
  out +=
      ".SH EXIT STATUS\n0 for success, 1 where \\fBdiff \\-\\-fail\\-on\\fR found something worse, 2 for "
      "wrong "
      "usage or input. \\fBrun\\fR passes on the exit status of the job, 128 plus the signal's number for a "
      "job "
      "that a signal ended.\n";
  return out;
}

}  // namespace gpuwatch::cli
