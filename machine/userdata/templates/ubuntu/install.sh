#!/bin/bash
# What boot.sh needs to know about Ubuntu.
# shellcheck disable=SC2154 # boot.sh has the variables from boot.env
export DEBIAN_FRONTEND=noninteractive

apply_network() {
  if [[ -e /etc/netplan/90-machinist.yaml ]]; then
    netplan apply
  fi
}

trust_certificates() {
  if [[ -e /usr/local/share/ca-certificates/machinist.crt ]]; then
    split_certificates /usr/local/share/ca-certificates/machinist.crt
  fi
  update-ca-certificates
}

# repository NAME KEY-URL LINE adds a signed repository.
repository() {
  download "$2" "/etc/apt/keyrings/$1.asc"
  printf 'deb [arch=%s signed-by=/etc/apt/keyrings/%s.asc] %s\n' "$ARCHITECTURE" "$1" "$3" >"/etc/apt/sources.list.d/$1.list"
}

install_runtime() {
  mkdir -p /etc/apt/keyrings
  repository docker "$CONTAINERD_SOURCE/gpg" "$CONTAINERD_SOURCE noble stable"
  repository kubernetes "$KUBERNETES_SOURCE/$KUBERNETES_MINOR/deb/Release.key" "$KUBERNETES_SOURCE/$KUBERNETES_MINOR/deb/ /"
  retry apt-get update
  if [[ $UPGRADE == true ]]; then
    retry apt-get dist-upgrade --yes --option Dpkg::Options::=--force-confold
  fi
  retry apt-get install --yes --no-install-recommends --allow-change-held-packages \
    --option Dpkg::Options::=--force-confold ca-certificates conntrack ethtool iptables socat 'containerd.io=2.*'
  apt-mark hold containerd.io
}

install_kubelet() {
  retry apt-get install --yes --no-install-recommends --allow-change-held-packages \
    --option Dpkg::Options::=--force-confold "kubelet=${KUBERNETES_VERSION#v}-*"
  apt-mark hold kubelet
}
