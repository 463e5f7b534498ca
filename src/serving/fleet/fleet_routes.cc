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
    const FleetRoute& first = Draw(model);
    const FleetRoute& second = Draw(model);
    const auto queue = [&model](const FleetRoute& route) {
      return static_cast<double>(model.loads[route.member].in_flight) / route.fraction;
    };
    member = queue(second) < queue(first) ? second.member : first.member;
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
  --flight->second.load->in_flight;
  flights_.erase(flight);
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

std::vector<RequestHandle> FleetRoutes::InFlight(const std::string& model,
                                                 std::size_t member) const {
  const MutexLock lock(mutex_);
  std::vector<RequestHandle> handles;
  const auto found = models_.find(model);
  if (found == models_.end()) return handles;
  const auto load = found->second.loads.find(member);
  if (load == found->second.loads.end() || load->second.in_flight == 0) return handles;
  for (const auto& [handle, flight] : flights_) {
    if (flight.load == &load->second) handles.push_back(handle);
  }
  return handles;
}

}  // namespace lagoon
