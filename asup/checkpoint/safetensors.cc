#include "asup/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/json.h"

namespace asup::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMetadata = "__metadata__";

constexpr std::size_t kLength = 8;                // bytes of the header's length
constexpr std::uint64_t kMostHeader = 100 << 20;  // what other readers take, too

constexpr std::array<std::pair<torch::ScalarType, const char*>, 10> kTypes{
    {{torch::kFloat64, "F64"},
     {torch::kFloat32, "F32"},
     {torch::kFloat16, "F16"},
     {torch::kBFloat16, "BF16"},
     {torch::kInt64, "I64"},
     {torch::kInt32, "I32"},
     {torch::kInt16, "I16"},
     {torch::kInt8, "I8"},
     {torch::kUInt8, "U8"},
     {torch::kBool, "BOOL"}}};

std::string length_in_bytes(std::uint64_t length) {
  std::string bytes;
  for (std::size_t i = 0; i < kLength; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

std::uint64_t length_from(std::string_view bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLength; ++i)
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return length;
}

// What is not text is not of the format, and left out.
Metadata metadata_in(std::string_view header) {
  Metadata metadata;
  const Json json = try_json<Json>(header);
  if (!json.contains(kMetadata)) return metadata;
  for (const auto& [key, value] : json.at(kMetadata).items())
    if (value.is_string()) metadata.emplace(key, value.get<std::string>());
  return metadata;
}

}  // namespace

std::string dtype_name(torch::ScalarType type) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const auto& known) { return known.first == type; });
  check(found != kTypes.end(), "a tensor of {} cannot be stored", c10::toString(type));
  return found->second;
}

torch::ScalarType type_of_dtype(const std::string& name) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const auto& known) { return known.second == name; });
  require(found != kTypes.end(), "has tensors of type {}, which is not known here", name);
  return found->first;
}

std::optional<std::uint64_t> bytes_of(torch::ScalarType type,
                                      const std::vector<std::int64_t>& shape) {
  std::int64_t bytes = static_cast<std::int64_t>(torch::elementSize(type));
  bool is_empty = false;
  for (const std::int64_t side : shape) {
    is_empty = is_empty || side == 0;
    // Torch multiplies the sides of what is empty, too.
    if (side < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(side, 1), &bytes))
      return std::nullopt;
  }
  return is_empty ? 0 : static_cast<std::uint64_t>(bytes);
}

PlainElements::PlainElements(const torch::Tensor& tensor)
    : plain_(tensor.detach().cpu().contiguous()) {}

std::span<const std::byte> PlainElements::bytes() const {
  return {static_cast<const std::byte*>(plain_.const_data_ptr()), plain_.nbytes()};
}

SafetensorsImage::SafetensorsImage(std::span<const sync::NamedTensor> tensors,
                                   const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", dtype_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {at, at + tensor.nbytes()}}};
    at += tensor.nbytes();
    elements_.emplace_back(tensor);
  }
  std::string text = header.dump();
  text.resize((text.size() + kLength - 1) / kLength * kLength, ' ');  // so that data is aligned
  front_ = length_in_bytes(text.size()) + text;
}

std::vector<std::span<const std::byte>> SafetensorsImage::pieces() const {
  std::vector<std::span<const std::byte>> pieces{
      std::as_bytes(std::span(front_.data(), front_.size()))};
  for (const PlainElements& elements : elements_) pieces.push_back(elements.bytes());
  return pieces;
}

std::string SafetensorsImage::text() const {
  std::string text;
  for (const auto& piece : pieces())
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return text;
}

SafetensorsFile::Entries SafetensorsFile::parse(std::string_view header,
                                                std::uint64_t data_bytes) try {
  Entries entries;
  const Json json = try_json<Json>(header);
  require(json.is_object(), "is corrupt: its header makes no sense");
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) continue;
    Entry entry;
    entry.type = type_of_dtype(value.at("dtype").get<std::string>());
    value.at("shape").get_to(entry.shape);
    const auto offsets = value.at("data_offsets").get<std::array<std::uint64_t, 2>>();
    require(offsets[0] <= offsets[1] && offsets[1] <= data_bytes,
            "is cut short: the elements of {} are not all there", name);
    entry.begin = offsets[0];
    entry.bytes = offsets[1] - offsets[0];
    require(bytes_of(entry.type, entry.shape) == entry.bytes,
            "is corrupt: {} has {} bytes, which its shape does not need", name, entry.bytes);
    entries.emplace(name, std::move(entry));
  }
  return entries;
} catch (const nlohmann::json::exception& error) {
  throw BadInput("is corrupt: its header makes no sense");
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

SafetensorsFile::SafetensorsFile(const std::string& path) try
    : path_(path), file_(path, std::ios::binary) {
  file_.seekg(0, std::ios::end);
  require(file_.good(), "cannot be read");
  const auto size = static_cast<std::uint64_t>(file_.tellg());
  require(size >= kLength, "is cut short: it has {} bytes", size);
  std::string length(kLength, '\0');
  file_.seekg(0);
  file_.read(length.data(), kLength);
  const std::uint64_t header_bytes = length_from(length);
  require(header_bytes <= kMostHeader && header_bytes <= size - kLength,
          "is cut short: a header of {} bytes is not all there", header_bytes);
  std::string header(header_bytes, '\0');
  file_.read(header.data(), static_cast<std::streamsize>(header_bytes));
  require(file_.good(), "cannot be read");
  data_ = kLength + header_bytes;
  entries_ = parse(header, size - data_);
  metadata_ = metadata_in(header);
} catch (const BadInput& error) {
  throw BadInput(fmt::format("{}: {}", path, error.what()));
}

torch::Tensor SafetensorsFile::read(const std::string& name) {
  const auto found = entries_.find(name);
  require(found != entries_.end(), "{}: has no tensor {}", path_, name);
  const Entry& entry = found->second;
  torch::Tensor tensor = torch::empty(entry.shape, entry.type);
  file_.seekg(static_cast<std::streamoff>(data_ + entry.begin));
  file_.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(entry.bytes));
  require(file_.good(), "{}: cannot be read", path_);
  return tensor;
}

std::map<std::string, torch::Tensor> SafetensorsFile::read_all(std::string_view text) {
  require(text.size() >= kLength && length_from(text) <= text.size() - kLength,
          "{} bytes of tensors have no header", text.size());
  const std::string_view header = text.substr(kLength, length_from(text));
  const std::string_view data = text.substr(kLength + header.size());
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, entry] : parse(header, data.size())) {
    torch::Tensor tensor = torch::empty(entry.shape, entry.type);
    if (entry.bytes > 0) std::memcpy(tensor.data_ptr(), data.data() + entry.begin, entry.bytes);
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace asup::checkpoint
