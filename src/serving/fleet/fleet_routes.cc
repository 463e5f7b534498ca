#include "serving/fleet/fleet_routes.h"

#include "base/check.h"

namespace lagoon {

void FleetRoutes::Set(const std::string& model, std::vector<FleetRoute> routes) {
  for (const FleetRoute& route : routes) LAGOON_CHECK(route.fraction > 0);
  const MutexLock lock(mutex_);
  models_[model].routes = std::move(routes);
}

std::vector<FleetRoute> FleetRoutes::Of(const std::string& model) const {
  const MutexLock lock(mutex_);
  const auto found = models_.find(model);
  return found == models_.end() ? std::vector<FleetRoute>() : found->second.routes;
}

std::map<std::string, std::vector<FleetRoute>> FleetRoutes::All() const {
  const MutexLock lock(mutex_);
  std::map<std::string, std::vector<FleetRoute>> all;
  for (const auto& [name, model] : models_) {
    if (!model.routes.empty()) all[name] = model.routes;
  }
  return all;
}

const FleetRoute& FleetRoutes::Draw(const Model& model) {
  double sum = 0;
  for (const FleetRoute& route : model.routes) sum += route.fraction;
  double left = random_.Uniform() * sum;
  for (const FleetRoute& route : model.routes) {
    left -= route.fraction;
    if (left < 0) return route;
  }
  return model.routes.back();  // rounding
}

std::optional<FleetRoutes::Begun> FleetRoutes::Begin(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end() || found->second.routes.empty()) return std::nullopt;
  Model& model = found->second;
  std::size_t member = model.routes.front().member;
  if (model.routes.size() > 1) {
    const std::size_t first = Draw(model).member;
    const std::size_t second = Draw(model).member;
    member = model.loads[second].in_flight < model.loads[first].in_flight ? second : first;
  }
  Load& load = model.loads[member];
  ++load.in_flight;
  ++load.requests;
  const RequestHandle handle{next_++};
  flights_[handle] = {&load, member};
  return Begun{handle, member};
}

bool FleetRoutes::Taken(RequestHandle handle, RequestHandle of_member) {
  const MutexLock lock(mutex_);
  const auto flight = flights_.find(handle);
  if (flight == flights_.end()) return false;  // answered
  flight->second.of_member = of_member;
  return flight->second.cancelled;
}

void FleetRoutes::End(RequestHandle handle) {
  const MutexLock lock(mutex_);
  const auto flight = flights_.find(handle);
  if (flight == flights_.end()) return;
  const bool idle = --flight->second.load->in_flight == 0;
  flights_.erase(flight);
  if (idle && waiting_ > 0) ended_.NotifyAll();
}

std::optional<std::pair<std::size_t, RequestHandle>> FleetRoutes::Cancel(RequestHandle handle) {
  const MutexLock lock(mutex_);
  const auto flight = flights_.find(handle);
  if (flight == flights_.end()) return std::nullopt;
  flight->second.cancelled = true;
  if (flight->second.of_member == RequestHandle{}) return std::nullopt;
  return std::pair(flight->second.member, flight->second.of_member);
}

std::map<std::string, std::map<std::size_t, FleetRoutes::Load>> FleetRoutes::Loads() const {
  const MutexLock lock(mutex_);
  std::map<std::string, std::map<std::size_t, Load>> loads;
  for (const auto& [name, model] : models_) loads[name] = model.loads;
  return loads;
}

void FleetRoutes::WaitUntilIdle(const std::string& model, std::size_t member) {
  const MutexLock lock(mutex_);
  ++waiting_;
  while (models_[model].loads[member].in_flight > 0) ended_.Wait(mutex_);
  --waiting_;
}

}  // namespace lagoon
