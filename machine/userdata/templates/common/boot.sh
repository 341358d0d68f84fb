#!/bin/bash
# Joins this machine to its cluster. It can run again at any time. All values are in files; none is part of this text.
set -euo pipefail
readonly sentinel=/run/cluster-api/bootstrap-success.complete state=/var/lib/machinist
mkdir -p "$state" "${sentinel%/*}"

report() {
  touch "$sentinel"
}

if [[ -e $state/joined ]]; then # a later boot: the folder of the sentinel is in memory
  report
  exit 0
fi

# retry runs one command up to five times.
retry() {
  local attempt
  for attempt in 1 2 3 4; do
    "$@" && return
    echo "attempt $attempt failed: $1" >&2
    sleep "${RETRY_SECONDS:-5}"
  done
  "$@"
}

# download URL FILE
download() {
  retry curl --fail --silent --show-error --location --proto '=https' --tlsv1.2 --output "$2" "$1"
}

# split_certificates FILE gives each certificate a file of its own: only such a file gets a link by its hash.
split_certificates() {
  local n=0 line
  rm -f "${1%.*}"-*
  while IFS= read -r line || [[ -n $line ]]; do
    if [[ $line == '-----BEGIN '*'CERTIFICATE-----'* ]]; then
      n=$((n + 1))
    fi
    if [[ $n -gt 0 ]]; then # before the first one there may be text
      printf '%s\n' "$line" >>"${1%.*}-$n.${1##*.}"
    fi
  done <"$1"
  if [[ $n -gt 0 ]]; then
    rm "$1"
  fi
}

set -o allexport
# shellcheck source=/dev/null
source /opt/machinist/boot.env
if [[ -e /opt/machinist/proxy.env ]]; then
  # shellcheck source=/dev/null
  source /opt/machinist/proxy.env
fi
set +o allexport
# shellcheck source=/dev/null
source /opt/machinist/install.sh

# node_ips finds the addresses of both families that this machine uses for others.
node_ips() {
  local four six
  four=$(ip -4 route get 192.0.2.1 | sed -n 's/.* src \([^ ]*\).*/\1/p')
  six=$(ip -6 route get 2001:db8::1 | sed -n 's/.* src \([^ ]*\).*/\1/p')
  [[ -n $four && -n $six ]] || { echo "no address of each family yet" >&2; return 1; }
  printf 'NODE_IP_ARGS=--node-ip=%s,%s\n' "$four" "$six" >"$state/node-ips.env"
}

modprobe --all overlay br_netfilter nf_conntrack
sysctl --quiet --load=/etc/sysctl.d/90-machinist.conf
swapoff --all
systemctl mask swap.target
apply_network
trust_certificates
if [[ $FIND_NODE_IPS == true ]]; then
  node_ips # a failure ends this run, and the unit starts the next one
fi
install_runtime
install_kubelet
systemctl daemon-reload
systemctl enable containerd.service kubelet.service
systemctl restart containerd.service kubelet.service

seconds=0
until [[ -s /var/lib/kubelet/pki/kubelet-client-current.pem ]]; do # there once the cluster has signed; kubelet.conf is there before
  if ((seconds++ >= ${JOIN_SECONDS:-600})); then
    echo "the kubelet has no certificate yet: see journalctl -u kubelet, and the CertificateSigningRequests of the cluster" >&2
    exit 1
  fi
  sleep 1
done
touch "$state/joined"
rm -f /etc/kubernetes/bootstrap-kubelet.conf # the kubelet needs it only without a certificate
report
