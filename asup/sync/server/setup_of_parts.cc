#include "asup/sync/server/setup_of_parts.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/collective/text_exchange.h"

namespace asup::sync {
namespace {

// Each worker's team: the workers that have the other parts of its model.
std::vector<std::uint32_t> teams_of(Communicator& replicas, const ModelParts& parts, int rank) {
  std::vector<std::int32_t> team(static_cast<std::size_t>(parts.communicator->size()));
  std::int32_t own = rank;
  parts.communicator->all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(team)))
      .or_throw("who has the parts of a model");
  std::vector<std::int32_t> all(team.size() * static_cast<std::size_t>(replicas.size()));
  replicas.all_gather(buffer_of(std::span(team)), buffer_of(std::span(all)))
      .or_throw("who has the parts of a model");
  std::vector<std::uint32_t> teams(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    teams.at(static_cast<std::size_t>(all[i])) = static_cast<std::uint32_t>(i / team.size());
  return teams;
}

bool has(const layout::Layout& layout, const std::string& name) {
  return std::ranges::any_of(layout.tensors, [&](const auto& each) { return each.name == name; });
}

}  // namespace

ps::ServerSetup setup_of_parts(const ps::ServerSetup& own, Communicator& replicas,
                               const ModelParts& parts, int rank) {
  ps::ServerSetup all = own;
  all.layout = {};
  all.groups.clear();
  for (const std::string& text : gather_texts(*parts.communicator, ps::to_text(own))) {
    const ps::ServerSetup part = ps::parse_setup(text);
    require(part.rules == own.rules,
            "the parts of the model have optimizers with different options or groups");
    for (std::size_t i = 0; i < part.layout.tensors.size(); ++i)
      if (has(all.layout, part.layout.tensors[i].name))
        all.copies.push_back(static_cast<std::uint32_t>(all.layout.tensors.size() + i));
    const std::uint64_t begin = all.layout.elements;
    layout::append(all.layout, part.layout);
    layout::pad_to_line(all.layout);
    all.parts.push_back({begin, all.layout.elements});
    for (std::size_t i = 0; i < part.layout.tensors.size(); ++i)
      all.groups.push_back(static_cast<std::uint32_t>(ps::group_of(part, i)));
  }
  all.teams = teams_of(replicas, parts, rank);
  return all;
}

}  // namespace asup::sync
