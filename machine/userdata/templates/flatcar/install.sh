#!/bin/bash
# What boot.sh needs to know about Flatcar: the container runtime is part of it, and /usr cannot be written.
# shellcheck disable=SC2154 # boot.sh has the variables from boot.env
readonly plugins_version=v1.9.1

apply_network() {
  :
}

trust_certificates() {
  if [[ -e /etc/ssl/certs/machinist.pem ]]; then
    split_certificates /etc/ssl/certs/machinist.pem
  fi
  update-ca-certificates
}

# download_checked URL FILE downloads a file, and compares it with the checksum that is published beside it.
download_checked() {
  local sum
  download "$1" "$2"
  download "$1.sha256" "$2.sha256"
  sum=$(cut -d ' ' -f 1 "$2.sha256")
  sha256sum --check --quiet <<<"$sum  $2"
}

install_runtime() {
  local name=cni-plugins-linux-$ARCHITECTURE-$plugins_version.tgz
  mkdir -p /opt/cni/bin /opt/bin /etc/containerd
  download_checked "$PLUGINS_SOURCE/$plugins_version/$name" /opt/cni/plugins.tgz
  tar -xzf /opt/cni/plugins.tgz -C /opt/cni/bin
}

install_kubelet() {
  download_checked "$KUBERNETES_SOURCE/$KUBERNETES_VERSION/bin/linux/$ARCHITECTURE/kubelet" /opt/bin/kubelet.new
  chmod 0755 /opt/bin/kubelet.new
  mv /opt/bin/kubelet.new /opt/bin/kubelet
}
