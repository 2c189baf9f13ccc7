# Makes what the host gives as NVDIMMs usable: the first as /dev/pmem0 for a file system with DAX, the second, where there is
# one, as /dev/dax1.0. What they are is written on them, so a later boot finds them as they are.
set -eu
cd /sys/bus/nd/devices

# use REGION SEED DRIVER: makes the whole region a namespace with a map of its pages in front.
use() {
    echo "namespace$1.0" >/sys/bus/nd/drivers/nd_pmem/unbind
    echo pmem >"$2/mode"
    echo 2097152 >"$2/align"
    cat /proc/sys/kernel/random/uuid >"$2/uuid"
    echo "namespace$1.0" >"$2/namespace"
    echo "$2" >"/sys/bus/nd/drivers/$3/bind"
}

[ "$(cat /sys/block/pmem0/queue/dax)" = 1 ] || use 0 pfn0.0 nd_pmem
[ ! -e region1 ] || [ -e /dev/dax1.0 ] || use 1 dax1.0 dax_pmem
[ "$(cat /sys/block/pmem0/queue/dax)" = 1 ]
