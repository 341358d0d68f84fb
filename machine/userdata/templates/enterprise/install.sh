#!/bin/bash
# What boot.sh needs to know about Red Hat Enterprise Linux and Rocky Linux.
# shellcheck disable=SC2154 # boot.sh has the variables from boot.env

apply_network() {
  if [[ -e /etc/NetworkManager/system-connections/machinist.nmconnection ]]; then
    nmcli connection reload
    nmcli connection up machinist
  fi
}

trust_certificates() {
  update-ca-trust extract
}

# repository NAME URL KEY-URL adds a signed repository.
repository() {
  printf '[%s]\nname=%s\nbaseurl=%s\ngpgkey=%s\nenabled=1\ngpgcheck=1\n' "$1" "$1" "$2" "$3" >"/etc/yum.repos.d/$1.repo"
}

install_runtime() {
  repository docker "$CONTAINERD_SOURCE/9/\$basearch/stable" "$CONTAINERD_SOURCE/gpg"
  repository kubernetes "$KUBERNETES_SOURCE/$KUBERNETES_MINOR/rpm/" "$KUBERNETES_SOURCE/$KUBERNETES_MINOR/rpm/repodata/repomd.xml.key"
  if systemctl is-enabled --quiet firewalld.service; then # it knows nothing of the rules of container networks
    systemctl disable --now firewalld.service
  fi
  if [[ $UPGRADE == true ]]; then
    retry dnf upgrade --assumeyes
  fi
  retry dnf install --assumeyes conntrack-tools container-selinux ethtool iproute-tc iptables-nft socat 'containerd.io-2.*'
}

install_kubelet() {
  retry dnf install --assumeyes "kubelet-${KUBERNETES_VERSION#v}"
}
