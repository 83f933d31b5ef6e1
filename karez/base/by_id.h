// A list indexed by an id type, so that indices need no casts and two kinds of id cannot be confused.
#pragma once

#include <cassert>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace karez::base {

// ById<NodeId, Layout> layouts(graph.nodes.size()); layouts[node] = ...; for (NodeId id : layouts.ids()) ...
template <class Key, class T> class ById {
 public:
  using value_type = T;
  using reference = typename std::vector<T>::reference;
  using const_reference = typename std::vector<T>::const_reference;

  ById() = default;
  explicit ById(std::size_t size) : items_(size) {}
  ById(std::size_t size, const T& value) : items_(size, value) {}
  ById(std::initializer_list<T> items) : items_(items) {}
  explicit ById(std::vector<T> items) : items_(std::move(items)) {}

  reference operator[](Key id) { return items_[position(id)]; }
  const_reference operator[](Key id) const { return items_[position(id)]; }

  // Appends an item and returns its id.
  Key add(T item) {
    items_.push_back(std::move(item));
    return Key(items_.size() - 1);
  }
  void push_back(T item) { items_.push_back(std::move(item)); }
  template <class... Parts> reference emplace_back(Parts&&... parts) {
    return items_.emplace_back(std::forward<Parts>(parts)...);
  }

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  bool has(Key id) const { return id.valid() && static_cast<std::size_t>(id.index) < items_.size(); }
  void resize(std::size_t size) { items_.resize(size); }
  void resize(std::size_t size, const T& value) { items_.resize(size, value); }
  void assign(std::size_t size, const T& value) { items_.assign(size, value); }
  void reserve(std::size_t size) { items_.reserve(size); }
  void clear() { items_.clear(); }

  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  reference front() { return items_.front(); }
  const_reference front() const { return items_.front(); }
  reference back() { return items_.back(); }
  const_reference back() const { return items_.back(); }

  // All ids, in order.
  class Ids {
   public:
    class iterator {
     public:
      using iterator_category = std::input_iterator_tag;
      using value_type = Key;
      using difference_type = std::ptrdiff_t;
      using pointer = const Key*;
      using reference = Key;
      explicit iterator(std::size_t at) : at_(at) {}
      Key operator*() const { return Key(at_); }
      iterator& operator++() {
        ++at_;
        return *this;
      }
      iterator operator++(int) { return iterator(at_++); }
      bool operator==(const iterator&) const = default;

     private:
      std::size_t at_;
    };
    explicit Ids(std::size_t size) : size_(size) {}
    iterator begin() const { return iterator(0); }
    iterator end() const { return iterator(size_); }

   private:
    std::size_t size_;
  };
  Ids ids() const { return Ids(items_.size()); }

  const std::vector<T>& list() const { return items_; }
  bool operator==(const ById&) const = default;

 private:
  std::size_t position(Key id) const {
    assert(has(id));
    return static_cast<std::size_t>(id.index);
  }
  std::vector<T> items_;
};

}  // namespace karez::base
