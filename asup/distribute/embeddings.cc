#include "asup/distribute/embeddings.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <limits>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/distribute/beside_tables.h"
#include "asup/distribute/table_file.h"
#include "asup/distribute/variables.h"
#include "asup/kernels/finite.h"
#include "asup/ps/table/client.h"

namespace asup {
namespace {

using kernels::Rule;
using ps::table::distinct_rows;
using ps::table::DistinctRows;

Rule rule_of(const torch::optim::SGDOptions& options) {
  require(options.momentum() == 0,
          "momentum of {:g}: rows that are touched now and then are trained by SGD without it",
          options.momentum());
  return {.weight_decay = options.weight_decay()};
}
Rule rule_of(const torch::optim::AdagradOptions& options) {
  require(options.lr_decay() == 0 && options.initial_accumulator_value() == 0,
          "Adagrad of rows has no lr_decay (call set_lr()) and sums that begin at 0");
  return {
      .kind = Rule::Kind::adagrad, .weight_decay = options.weight_decay(), .eps = options.eps()};
}
Rule rule_of(const torch::optim::AdamOptions& options) {
  return {.kind = Rule::Kind::adam,
          .weight_decay = options.weight_decay(),
          .eps = options.eps(),
          .beta1 = std::get<0>(options.betas()),
          .beta2 = std::get<1>(options.betas()),
          .amsgrad = options.amsgrad()};
}

TablePace pace_of(const Strategy& strategy) {
  const Capabilities capabilities = strategy.capabilities();
  const bool in_step = capabilities.needs_servers
                           ? capabilities.pace == "bsp" && capabilities.backups == 0
                           : capabilities.lockstep && capabilities.exchanges == Exchange::gradients;
  return in_step ? TablePace::bsp : TablePace::asp;
}

// As int64, one after the other, here.
torch::Tensor plain_ids(const torch::Tensor& ids, const ps::table::TableSetup& setup) {
  require(
      ids.defined() && (ids.scalar_type() == torch::kInt64 || ids.scalar_type() == torch::kInt32),
      "table {}: ids are of type int64 or int32, not {}", setup.name,
      ids.defined() ? c10::toString(ids.scalar_type()) : "nothing");
  torch::Tensor plain = ids.detach().to(torch::kCPU, torch::kInt64).contiguous();
  const std::int64_t* data = plain.const_data_ptr<std::int64_t>();
  const auto rows = static_cast<std::int64_t>(setup.rows);
  for (std::int64_t i = 0; i < plain.numel(); ++i)
    require(data[i] >= 0 && data[i] < rows,
            "table {}: id {} (number {} of this batch) is no row of its {}", setup.name, data[i], i,
            rows);
  return plain;
}

// The rows of some places, as torch::embedding() has them; backward adds up the gradients of a row
// straight from memory, not by a call of torch for each.
struct Gather : torch::autograd::Function<Gather> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& rows,
                               const torch::Tensor& places) {
    context->save_for_backward({places});
    context->saved_data["rows"] = rows.size(0);
    return torch::embedding(rows, places);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::Tensor places = context->get_saved_variables()[0];
    const torch::Tensor gradient = gradients[0].contiguous();
    const std::int64_t width = gradient.size(-1);
    torch::Tensor sums = torch::zeros({context->saved_data["rows"].toInt(), width});
    const auto* place = places.const_data_ptr<std::int64_t>();
    const auto* from = gradient.const_data_ptr<float>();
    auto* to = sums.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < places.numel(); ++i, from += width)
      for (std::int64_t column = 0; column < width; ++column)
        to[place[i] * width + column] += from[column];
    return {sums, torch::Tensor()};
  }
};

struct Gradient {
  DistinctRows distinct;
  torch::Tensor sums;  // of each row
};

// Several uses of a table in a step: each row once.
Gradient added_up(const std::vector<Gradient>& uses, std::uint64_t rows, int servers) {
  std::vector<std::int64_t> ids;
  for (const Gradient& use : uses)
    ids.insert(ids.end(), use.distinct.rows.begin(), use.distinct.rows.end());
  Gradient all{distinct_rows(ids, rows, servers), {}};
  const std::int64_t width = uses.front().sums.size(1);
  all.sums = torch::zeros({std::ssize(all.distinct.rows), width});
  std::int64_t begin = 0;
  for (const Gradient& use : uses) {
    const auto count = std::ssize(use.distinct.rows);
    const auto places =
        torch::from_blob(all.distinct.places.data() + begin, {count}, torch::kInt64);
    all.sums.index_add_(0, places, use.sums);
    begin += count;
  }
  return all;
}

}  // namespace

class EmbeddingTable::State {
 public:
  // Rows that a forward() has pulled; those who backward reaches have a gradient.
  struct Use {
    DistinctRows distinct;
    torch::Tensor rows;
  };

  ps::table::Client& client;
  const std::size_t number;
  const ps::table::TableSetup setup;
  double lr;
  std::vector<Use> uses{};  // since the last step
  std::uint64_t rows_pulled = 0, rows_pushed = 0;

  // Of all uses; none where backward has reached none.
  std::optional<Gradient> take_gradient();
};

std::optional<Gradient> EmbeddingTable::State::take_gradient() {
  std::vector<Gradient> gradients;
  for (Use& use : uses)
    if (use.rows.grad().defined())
      gradients.push_back({std::move(use.distinct), use.rows.grad().contiguous()});
  uses.clear();
  if (gradients.empty()) return std::nullopt;
  if (gradients.size() == 1) return std::move(gradients.front());
  return added_up(gradients, setup.rows, client.servers());
}

EmbeddingTable::EmbeddingTable(std::unique_ptr<State> state) : state_(std::move(state)) {}
EmbeddingTable::~EmbeddingTable() = default;

const std::string& EmbeddingTable::name() const { return state_->setup.name; }
std::int64_t EmbeddingTable::rows() const { return static_cast<std::int64_t>(state_->setup.rows); }
std::int64_t EmbeddingTable::width() const { return state_->setup.width; }
double EmbeddingTable::lr() const { return state_->lr; }
void EmbeddingTable::set_lr(double lr) {
  require(std::isfinite(lr) && lr >= 0, "table {}: a learning rate of {}", name(), lr);
  state_->lr = lr;
}

torch::Tensor EmbeddingTable::forward(const torch::Tensor& ids) {
  const torch::Tensor plain = plain_ids(ids, state_->setup);
  DistinctRows distinct =
      distinct_rows({plain.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(plain.numel())},
                    state_->setup.rows, state_->client.servers());
  torch::Tensor rows = torch::empty({std::ssize(distinct.rows), width()});
  state_->client.pull(state_->number, distinct, rows.mutable_data_ptr<float>());
  state_->rows_pulled += distinct.rows.size();
  const torch::Tensor places =
      torch::from_blob(distinct.places.data(), plain.sizes(), torch::kInt64).clone();
  if (torch::GradMode::is_enabled()) {
    rows.set_requires_grad(true);
    distinct.places = {};
    state_->uses.push_back({std::move(distinct), rows});
  }
  if (ids.device().is_cpu()) return Gather::apply(rows, places);
  return torch::embedding(rows.to(ids.device()), places.to(ids.device()));
}

class Embeddings::State {
 public:
  State(Job& job, TablePace pace, Seconds timeout)
      : job(job), pace(pace), client(ps::table::group_of(job), timeout) {}

  // One worker does it, while the others wait.
  template <typename Action>
  void by_the_first(const Action& action);

  Job& job;
  const TablePace pace;
  ps::table::Client client;
  std::vector<std::unique_ptr<EmbeddingTable>> tables;
  std::uint64_t steps = 0;
  bool said_not_finite = false;
};

namespace {

Seconds timeout_of(const Job& job, const EmbeddingsOptions& options) {
  return options.timeout > Seconds(0) ? options.timeout : job.options().call_timeout;
}

TablePace chosen_pace(const Job& job, const EmbeddingsOptions& options) {
  require(job.servers() > 0,
          "embedding tables are kept by servers, and this job has none: start it with asup run "
          "--servers 1");
  return options.pace ? *options.pace : pace_of(Strategy::from(net::process_environment()));
}

}  // namespace

Embeddings::Embeddings(Job& job, EmbeddingsOptions options)
    : state_(std::make_unique<State>(job, chosen_pace(job, options), timeout_of(job, options))) {}
Embeddings::~Embeddings() = default;

TablePace Embeddings::pace() const { return state_->pace; }

EmbeddingTable& Embeddings::table(const std::string& name, std::int64_t rows, std::int64_t width,
                                  TableOptions options) {
  require(rows > 0 && width > 0 && width <= std::numeric_limits<std::int32_t>::max(),
          "table {} of {} rows of {} numbers", name, rows, width);
  for (const auto& other : state_->tables)
    require(other->name() != name, "there is a table {} already", name);
  const ps::table::TableSetup setup{
      .name = name,
      .rows = static_cast<std::uint64_t>(rows),
      .width = static_cast<std::uint32_t>(width),
      .rule = std::visit([](const auto& chosen) { return rule_of(chosen); }, options.optimizer),
      .init = options.init,
      .seed = options.seed,
      .synchronous = state_->pace == TablePace::bsp};
  const double lr = std::visit([](const auto& chosen) { return chosen.lr(); }, options.optimizer);
  const std::size_t number = state_->client.add(setup);
  state_->tables.push_back(
      std::unique_ptr<EmbeddingTable>(new EmbeddingTable(std::unique_ptr<EmbeddingTable::State>(
          new EmbeddingTable::State{state_->client, number, setup, lr}))));
  return *state_->tables.back();
}

StepResult Embeddings::step(std::uint64_t samples) {
  require(!state_->tables.empty(), "there is no table to step: make one with table()");
  std::vector<std::optional<Gradient>> gradients;
  bool finite = true;
  for (const auto& table : state_->tables) {
    gradients.push_back(table->state_->take_gradient());
    if (const auto& gradient = gradients.back())
      finite = finite &&
               kernels::count_not_finite(gradient->sums.const_data_ptr<float>(),
                                         static_cast<std::size_t>(gradient->sums.numel())) == 0;
  }
  if (!finite && !std::exchange(state_->said_not_finite, true))
    log().warn("rows' gradients of step {} are not finite: they are left out, as later ones are",
               state_->steps + 1);
  if (!finite) samples = 0;
  std::vector<ps::table::TableStep> steps;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    EmbeddingTable::State& table = *state_->tables[i]->state_;
    const bool trained = gradients[i] && samples > 0;
    steps.push_back({table.lr, trained ? 1u : 0u});
    if (!trained) continue;
    state_->client.push(i, gradients[i]->distinct, gradients[i]->sums.const_data_ptr<float>());
    table.rows_pushed += gradients[i]->distinct.rows.size();
  }
  state_->client.commit(samples, steps);
  ++state_->steps;
  return finite ? StepResult::applied : StepResult::skipped;
}

template <typename Action>
void Embeddings::State::by_the_first(const Action& action) {
  std::exception_ptr thrown;
  if (client.meet() == job.rank()) try {
      for (const auto& table : tables) action(*table->state_);
    } catch (const JobFailed&) {
      throw;
    } catch (...) {
      thrown = std::current_exception();
    }
  client.meet();
  if (thrown) std::rethrow_exception(thrown);
}

namespace {

std::string path_of(const std::string& folder, const ps::table::TableSetup& setup) {
  return (std::filesystem::path(folder) / (setup.name + ".safetensors")).string();
}

// Calls action(rows) for pieces of a table that fit into a message.
template <typename Action>
void for_pieces(const ps::table::TableSetup& setup, const Action& action) {
  const std::uint64_t record = record_floats(setup) * sizeof(float);
  const std::uint64_t most = std::max<std::uint64_t>(1, ps::table::kMostBytes / record);
  for (std::uint64_t begin = 0; begin < setup.rows; begin += most)
    action(layout::Range{begin, std::min(begin + most, setup.rows)});
}

}  // namespace

void Embeddings::save(const std::string& folder) {
  state_->by_the_first([&](EmbeddingTable::State& table) {
    std::filesystem::create_directories(folder);
    const double steps = table.client.read_records(table.number, {}, nullptr);
    TableFile file = TableFile::create(path_of(folder, table.setup), table.setup, steps);
    std::vector<float> records;
    for_pieces(table.setup, [&](layout::Range rows) {
      records.resize(rows.size() * record_floats(table.setup));
      table.client.read_records(table.number, rows, records.data());
      file.write(rows, records.data());
    });
    file.finish();
  });
}

void Embeddings::verify(const std::string& folder) const {
  for (const auto& table : state_->tables)
    (void)TableFile::open(path_of(folder, table->state_->setup), table->state_->setup);
}

void Embeddings::load(const std::string& folder) {
  state_->by_the_first([&](EmbeddingTable::State& table) {
    TableFile file = TableFile::open(path_of(folder, table.setup), table.setup);
    std::vector<float> records;
    for_pieces(table.setup, [&](layout::Range rows) {
      records.resize(rows.size() * record_floats(table.setup));
      file.read(rows, records.data());
      table.client.write_records(table.number, rows, records.data(), file.steps());
    });
  });
}

std::unique_ptr<DistributedReplica> Embeddings::distribute(torch::nn::Module& model,
                                                           torch::optim::Optimizer& optimizer) {
  refuse_unknown_variables(own_variables());
  return distribute(model, optimizer, Strategy::from(net::process_environment()));
}

std::unique_ptr<DistributedReplica> Embeddings::distribute(torch::nn::Module& model,
                                                           torch::optim::Optimizer& optimizer,
                                                           const Strategy& strategy) {
  return distribute_beside_tables(state_->job, model, optimizer, strategy);
}

EmbeddingsStats Embeddings::stats() const {
  EmbeddingsStats stats{.steps = state_->steps,
                        .bytes_moved = state_->client.bytes_moved(),
                        .wait_seconds = state_->client.wait_seconds()};
  for (const auto& table : state_->tables) {
    stats.rows_pulled += table->state_->rows_pulled;
    stats.rows_pushed += table->state_->rows_pushed;
  }
  return stats;
}

}  // namespace asup
