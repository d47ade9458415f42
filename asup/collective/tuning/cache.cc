#include "asup/collective/tuning/cache.h"

#include <fmt/format.h>

#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/json.h"
#include "asup/base/log.h"
#include "asup/collective/execute/envelope.h"

namespace asup::collective::tuning {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Rates& rates) {
  Rates copy = rates;
  Json json = Json::object();
  for (const RateField& field : fields_of(copy)) json[std::string(field.name)] = *field.value;
  return json;
}

Rates rates_of(const Json& json) {
  require(json.is_object(), "rates: not an object of numbers");
  Rates rates;
  for (const RateField& field : fields_of(rates)) {
    const auto found = json.find(std::string(field.name));
    require(found != json.end() && found->is_number(), "rates: {} is not a number", field.name);
    *field.value = found->get<double>();
  }
  require_valid(rates);
  return rates;
}

Json parse(const std::string& text) {
  Json json = try_json<Json>(text);
  require(!json.is_discarded(), "not JSON");
  return json;
}

Rates read(const std::string& text, const std::string& key) {
  const Json json = parse(text);
  require(json.is_object() && json.contains("key") && json.contains("rates"),
          "not a file of rates");
  require(json["key"] == key, "it is about {}", json["key"].dump());
  return rates_of(json["rates"]);
}

}  // namespace

std::string to_text(const Rates& rates) { return to_json(rates).dump(); }

Rates rates_from(const std::string& text) { return rates_of(parse(text)); }

RatesCache RatesCache::of_user() { return RatesCache(user_cache_folder()); }

std::string RatesCache::file(const std::string& key) const {
  return folder_.empty() ? "" : fmt::format("{}/rates-{:08x}.json", folder_, hash_of(key));
}

std::optional<Rates> RatesCache::find(const std::string& key) const {
  const std::string path = file(key);
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    return read(read_file(path), key);
  } catch (const std::exception& error) {
    log().warn("{} is ignored ({}); asup tune writes a new one", path, error.what());
    return std::nullopt;
  }
}

void RatesCache::remember(const std::string& key, const Rates& rates) const {
  if (folder_.empty()) return;
  try {
    std::filesystem::create_directories(folder_);
    write_atomically(file(key), Json{{"key", key}, {"rates", to_json(rates)}}.dump(1) + "\n");
  } catch (const std::exception& error) {
    log().info("the rates of the links are not remembered: {}", error.what());
  }
}

}  // namespace asup::collective::tuning
