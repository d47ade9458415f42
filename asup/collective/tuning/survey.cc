#include "asup/collective/tuning/survey.h"

#include <algorithm>

#include "asup/collective/tuning/choose.h"
#include "asup/collective/tuning/chooser.h"
#include "asup/collective/tuning/trial.h"

namespace asup::collective::tuning {
namespace {

SurveyRow try_all(Communicator& communicator, Chooser& chooser, std::span<const int> hosts,
                  std::size_t bytes, const SurveyOptions& options) {
  Trial trial(communicator, options.collective, bytes, options.shared);
  Spec spec = trial.spec();
  spec.stage = options.stage;
  const Algorithm* pick = &chooser.choose(spec, sizeof(float));
  SurveyRow row{bytes, {}};
  for (const Algorithm& algorithm : algorithms()) {
    if (!can_serve(algorithm, spec)) continue;
    const std::string name(algorithm.name);
    trial.check_result(name);
    if (&algorithm == pick) row.picked = row.cells.size();
    const double predicted =
        seconds_of(price(algorithm, spec, chooser.rates(), sizeof(float), hosts));
    row.cells.push_back({&algorithm, predicted, trial.time(name, options.seconds)});
  }
  const auto best = std::min_element(
      row.cells.begin(), row.cells.end(),
      [](const SurveyCell& a, const SurveyCell& b) { return a.measured < b.measured; });
  row.best = static_cast<std::size_t>(best - row.cells.begin());
  communicator.barrier().or_throw();  // nobody frees memory that another still reads
  return row;
}

}  // namespace

std::vector<SurveyRow> survey(Communicator& communicator, const Surroundings& surroundings,
                              const Rates& rates, const SurveyOptions& options,
                              const std::function<void(const SurveyRow&)>& on_row) {
  Chooser chooser(rates, surroundings.hosts);
  std::vector<SurveyRow> rows;
  for (const std::size_t bytes : options.sizes) {
    rows.push_back(try_all(communicator, chooser, surroundings.hosts, bytes, options));
    if (on_row) on_row(rows.back());
  }
  return rows;
}

}  // namespace asup::collective::tuning
