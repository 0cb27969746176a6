// SPDX-License-Identifier: Apache-2.0
// Build-time tool: reads the compiled schema and writes templates.h, with which injected code lays down
// FlatBuffers without a FlatBufferBuilder (which allocates and throws). For each table: its bytes with every
// field present and zero, the offset of each field in them, a plain struct of the fields and lay_down().
//
//   make_templates trace.bfbs templates.h
#include <flatbuffers/flatbuffers.h>
#include <flatbuffers/reflection_generated.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "libinject/trace/layout.h"

namespace {

using reflection::BaseType;

const char* cpp_type(BaseType type) {
  switch (type) {
    case BaseType::Byte:
      return "int8_t";
    case BaseType::UByte:
      return "uint8_t";
    case BaseType::Short:
      return "int16_t";
    case BaseType::UShort:
      return "uint16_t";
    case BaseType::Int:
      return "int32_t";
    case BaseType::UInt:
      return "uint32_t";
    case BaseType::Long:
      return "int64_t";
    case BaseType::ULong:
      return "uint64_t";
    default:
      return nullptr;
  }
}

struct Field {
  std::string name;
  const char* type;  // of a scalar; nullptr for a struct or the tail
  bool is_tail;      // string or vector: only its length and the place of its data matter
  uint16_t vtable_offset;
  size_t byte_offset;
};

struct Template {
  std::string name;
  std::vector<uint8_t> bytes;
  std::vector<Field> fields;
};

// Adds one zero scalar of the reflected width; force_defaults keeps it in the buffer.
void add_zero(flatbuffers::FlatBufferBuilder& builder, const reflection::Field& field) {
  switch (field.type()->base_type()) {
    case BaseType::Byte:
    case BaseType::UByte:
      builder.AddElement<uint8_t>(field.offset(), 0, 0);
      break;
    case BaseType::Short:
    case BaseType::UShort:
      builder.AddElement<uint16_t>(field.offset(), 0, 0);
      break;
    case BaseType::Int:
    case BaseType::UInt:
      builder.AddElement<uint32_t>(field.offset(), 0, 0);
      break;
    case BaseType::Long:
    case BaseType::ULong:
      builder.AddElement<uint64_t>(field.offset(), 0, 0);
      break;
    default:
      throw std::runtime_error("no template for the type of field " + field.name()->str());
  }
}

// Data of a tail vector stands at the end of the buffer, so that a caller can append to it.
flatbuffers::uoffset_t add_empty_tail(flatbuffers::FlatBufferBuilder& builder, const reflection::Type& type) {
  if (type.base_type() == BaseType::String) return builder.CreateString("").o;
  // Slots hold 64-bit fields and nested frames are 8-aligned: the vector's data must be, too.
  builder.ForceVectorAlignment(1, 8, 8);  // of one imagined element: for none, the builder ignores it
  return builder.CreateVector<uint8_t>(nullptr, 0).o;  // (StartVector's arguments differ between releases)
}

Template build(const reflection::Schema& schema, const reflection::Object& object, const std::string& name,
               const char* identifier) {
  flatbuffers::FlatBufferBuilder builder;
  builder.ForceDefaults(true);
  Template result{name, {}, {}};

  // Reflection lists fields by name; designated initialisers want the order of the schema.
  std::vector<const reflection::Field*> fields(object.fields()->begin(), object.fields()->end());
  std::sort(fields.begin(), fields.end(), [](auto* a, auto* b) { return a->id() < b->id(); });

  flatbuffers::uoffset_t tail = 0;
  for (const auto* field : fields) {
    const auto base = field->type()->base_type();
    if (base == BaseType::String || base == BaseType::Vector) tail = add_empty_tail(builder, *field->type());
  }
  const auto start = builder.StartTable();
  for (const auto* field : fields) {
    const auto base = field->type()->base_type();
    const bool is_tail = base == BaseType::String || base == BaseType::Vector;
    if (is_tail) {
      builder.AddOffset(field->offset(), flatbuffers::Offset<void>(tail));
    } else if (base == BaseType::Obj) {
      const auto* inner = schema.objects()->Get(field->type()->index());
      builder.Align(inner->minalign());
      builder.Pad(inner->bytesize());
      builder.AddStructOffset(field->offset(), builder.GetSize());
    } else {
      add_zero(builder, *field);
    }
    result.fields.push_back({field->name()->str(), cpp_type(base), is_tail, field->offset(), 0});
  }
  const auto root = builder.EndTable(start);
  builder.FinishSizePrefixed(flatbuffers::Offset<flatbuffers::Table>(root), identifier);

  const uint8_t* data = builder.GetBufferPointer();
  result.bytes.assign(data, data + builder.GetSize());
  const auto* table = flatbuffers::GetSizePrefixedRoot<flatbuffers::Table>(data);
  for (auto& field : result.fields) {
    if (field.is_tail) {
      const auto* vector = table->GetPointer<const flatbuffers::Vector<uint8_t>*>(field.vtable_offset);
      field.byte_offset = reinterpret_cast<const uint8_t*>(vector) - data;  // the length; data follows it
    } else {
      field.byte_offset = table->GetAddressOf(field.vtable_offset) - data;
    }
  }
  return result;
}

void write_lay_down(std::ostream& out, const Template& t, bool has_tail) {
  out << "inline size_t lay_down(uint8_t* to, const " << t.name << "Fields& fields"
      << (has_tail ? ", const char* tail, uint32_t tail_bytes" : "") << ") noexcept {\n"
      << "  using T = " << t.name << "Template;\n"
      << "  __builtin_memcpy(to, T::kBytes, sizeof T::kBytes);\n";
  for (const auto& field : t.fields) {
    if (!field.type) continue;
    out << "  __builtin_memcpy(to + T::k_" << field.name << ", &fields." << field.name << ", sizeof fields."
        << field.name << ");\n";
  }
  if (!has_tail) {
    out << "  return sizeof T::kBytes;\n}\n\n";
    return;
  }
  // A string ends in a NUL that its length does not count; the frame is padded to 8 bytes with zeros, which
  // the claimed memory already holds.
  out << "  __builtin_memcpy(to + T::kTailLength, &tail_bytes, 4);\n"
      << "  __builtin_memcpy(to + T::kTailData, tail, tail_bytes);\n"
      << "  to[T::kTailData + tail_bytes] = 0;\n"
      << "  const size_t size = (T::kTailData + tail_bytes + 1 + 7) & ~size_t{7};\n"
      << "  const uint32_t prefix = static_cast<uint32_t>(size - 4);\n"
      << "  __builtin_memcpy(to, &prefix, 4);\n"
      << "  return size;\n}\n\n";
}

void write(std::ostream& out, const Template& t, bool with_fields) {
  out << "struct " << t.name << "Template {\n  static constexpr uint8_t kBytes[] = {";
  for (size_t i = 0; i < t.bytes.size(); ++i)
    out << (i % 20 ? "," : (i ? ",\n      " : "\n      ")) << int{t.bytes[i]};
  out << "};\n";
  bool has_tail = false;
  for (const auto& field : t.fields) {
    if (field.is_tail) {
      has_tail = true;
      out << "  static constexpr size_t kTailLength = " << field.byte_offset << ";\n"
          << "  static constexpr size_t kTailData = " << field.byte_offset + 4 << ";\n";
    } else {
      out << "  static constexpr size_t k_" << field.name << " = " << field.byte_offset << ";\n";
    }
  }
  out << "};\n\n";
  if (!with_fields) return;
  out << "struct " << t.name << "Fields {\n";
  for (const auto& field : t.fields) {
    if (field.type) out << "  " << field.type << " " << field.name << " = 0;\n";
  }
  out << "};\n\n";
  write_lay_down(out, t, has_tail);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("usage: make_templates SCHEMA.bfbs OUTPUT.h");
  std::ifstream in(argv[1], std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (bytes.empty()) throw std::runtime_error(std::string("cannot read ") + argv[1]);
  const auto* schema = reflection::GetSchema(bytes.data());

  std::ofstream out(argv[2]);
  out << "// Generated by make_templates from trace.fbs. Do not edit.\n#pragma once\n\n#include <cstddef>\n"
         "#include <cstdint>\n\nnamespace gpuwatch::trace {\n\n";
  const auto emit = [&](const char* name, const char* identifier, bool with_fields) {
    const auto* object = schema->objects()->LookupByKey((std::string("gpuwatch.trace.") + name).c_str());
    if (!object) throw std::runtime_error(std::string("the schema has no table ") + name);
    write(out, build(*schema, *object, name, identifier), with_fields);
  };
  using namespace gpuwatch::trace;
  emit("FileHeader", kHeaderIdentifier, true);
  emit("Chunk", kChunkIdentifier, false);
  emit("TableChunk", kTableChunkIdentifier, false);
#define GW_EMIT(table, identifier) emit(#table, identifier, true);
  GW_TRACE_TABLES(GW_EMIT)
#undef GW_EMIT
  out << "}  // namespace gpuwatch::trace\n";
  out.flush();
  if (!out) throw std::runtime_error(std::string("cannot write ") + argv[2]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "make_templates: %s\n", error.what());
  return 1;
}
