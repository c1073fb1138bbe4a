//go:build install

package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authz/tests/rig"
)

// testMark is in the version of each package that this test has made.
const testMark = "~test"

// makePackage makes the Debian package of a version in a folder of its own, where the binary is too.
func makePackage(t testing.TB, version string) (deb, dir string) {
	t.Helper()
	dir = t.TempDir()
	sh(t, "cd .. && make -s deb VERSION="+version+testMark+" BIN="+dir)
	found, err := filepath.Glob(dir + "/authz_" + version + testMark + "_*.deb")
	if err != nil || len(found) != 1 {
		t.Fatalf("make deb has made %v, %v, want one package", found, err)
	}
	return found[0], dir
}

// laterPackage is a package as a later release would be: another binary, and other files in /etc.
func laterPackage(t testing.TB, deb, version string) string {
	t.Helper()
	dir := t.TempDir()
	sh(t, "dpkg-deb -R "+deb+" "+dir+"/later; make -s -C .. build VERSION="+version+testMark+" BIN="+dir+"/later/usr/bin; cd "+dir+`
		echo "# later" | tee -a later/etc/nginx/authz/authz.conf >> later/etc/authz/limits.toml
		sed -i "s/^Version: .*/Version: `+version+testMark+`/" later/DEBIAN/control
		dpkg-deb -Zgzip -z1 -b later later.deb`)
	return dir + "/later.deb"
}

// withoutAuthz fails where there is an authz that is not of this test, and sees to it that there is none when it ends.
// traces are all files that have to do with authz.
func withoutAuthz(t *testing.T) (traces func() string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("want root: this test installs a package, which dpkg lets nobody else do")
	}
	if out, _ := exec.Command("dpkg-query", "-W", "-f=${Version}", "authz").Output(); strings.HasSuffix(string(out), testMark) {
		sh(t, "dpkg --purge authz; rm -rf /run/authz /etc/authz") // of a run that was killed
	} else if len(out) > 0 {
		t.Fatalf("a package authz is known here that this test has not made (%s): want a machine without", out)
	}
	for _, path := range []string{"/usr/bin/authz", "/etc/authz", "/etc/nginx/authz", "/run/authz"} {
		if _, err := os.Lstat(path); err == nil {
			t.Fatalf("%s is there: want a machine without authz, since this test installs and starts it", path)
		}
	}
	traces = func() string {
		return sh(t, "find /etc /run /usr/bin /usr/lib/systemd /usr/share/authz* /usr/share/doc /usr/share/man /var/lib/dpkg /var/lib/systemd -name '*authz*' 2>/dev/null || true")
	}
	before := traces()
	t.Cleanup(func() {
		sh(t, "dpkg --purge authz 2>/dev/null; rm -rf /run/authz /etc/authz")
		rig.Same(t, traces(), before)
	})
	return traces
}

// startInstalled starts the service by the words of the installed unit and its environment, as a user that has no
// rights, like the one that systemd makes up.
func startInstalled(t *testing.T) *rig.AuthzServer {
	t.Helper()
	const unit = "/usr/lib/systemd/system/authz.service"
	the := func(name string) string {
		t.Helper()
		return submatches(t, unit, `(?m)^`+name+`=-?(.*)$`)[0]
	}
	group := the("Group")
	sh(t, "install -d -o 61184 -g "+group+" -m 755 /run/"+the("RuntimeDirectory"))
	args := append([]string{"--reuid=61184", "--regid=" + group, "--clear-groups", "--no-new-privs", "--bounding-set=-all"}, strings.Fields(the("ExecStart"))...)
	args = append(args, submatches(t, unit, `(?m)^Environment=(.*)$`)...)
	args = append(args, submatches(t, the("EnvironmentFile"), `(?m)^(\w+=.*)$`)...)
	a := rig.LaunchBinary(t, "/usr/bin/setpriv", args...)
	a.Await(t, "msg=serving ")
	return a
}

// The package is installed, serves nginx by its unit's own words, is upgraded and taken back with what was edited
// kept, and leaves nothing behind but what the owner has put there.
func TestTheDebianPackageIsInstalledUpgradedAndRemoved(t *testing.T) {
	traces := withoutAuthz(t)
	before := traces()
	first, made := makePackage(t, "0.0.1")
	later := laterPackage(t, first, "0.0.2")
	n := rig.StartNginx(t, `
		include authz/authz.conf;
		include authz/authz_upstream_unix.conf;
		server { include authz/authz_server.conf; listen LISTEN; location / { empty_gif; } }`, nil)
	n.MayLog = []string{"connect() to unix:/run/authz/authz.sock failed"}
	logIn := func(want string) {
		t.Helper()
		rig.Same(t, n.Send(t, "POST /login", "").Show("X-Authz-Limit"), want)
	}
	version := func(want string) {
		t.Helper()
		rig.Same(t, submatch(t, sh(t, "authz version"), `^authz (\S+) `), want+testMark)
	}
	const environment = "AUTHZ_REDIS=\nAUTHZ_ADMIN=127.0.0.1:0\n" // counts in memory, and no port that is another's

	for range 2 { // what was done already is well
		sh(t, "dpkg --force-unsafe-io -i "+first)
	}
	version("0.0.1")
	asInstalled(t, made)
	rig.ReplaceFile(t, "/etc/authz/environment", environment)
	logIn("503") // nothing is started that has not been told to
	a := startInstalled(t)
	for range 5 {
		logIn("405") // admitted: the picture cannot be posted to
	}
	logIn("429 X-Authz-Limit=login")

	// An upgrade ends nobody who serves; what was edited stays, what was not is new, and is read.
	sh(t, "echo '# ours' >> /etc/nginx/authz/authz.conf; dpkg --force-unsafe-io --force-confold -i "+later)
	version("0.0.2")
	rig.Same(t, sh(t, "tail -qn 1 /etc/nginx/authz/authz.conf /etc/authz/limits.toml; cat /etc/authz/environment"), "# ours\n# later\n"+environment)
	a.Await(t, `msg="limits reloaded" why="files changed"`)
	logIn("429 X-Authz-Limit=login")
	if code := a.Stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	a = startInstalled(t)
	logIn("405")
	a.Stop(t)

	sh(t, "dpkg --force-unsafe-io --force-confold -i "+first)
	version("0.0.1")
	rig.Same(t, sh(t, "tail -qn 1 /etc/nginx/authz/authz.conf; cat /etc/authz/environment"), "# ours\n"+environment)

	sh(t, "dpkg --remove authz")
	rig.Same(t, sh(t, "ls /usr/bin/authz 2>/dev/null || ls /etc/authz"), "environment\nlimits.toml\n")
	sh(t, "dpkg --purge authz")
	rig.Same(t, sh(t, "cat /etc/authz/*"), environment)
	sh(t, "rm -r /etc/authz /run/authz")
	rig.Same(t, traces(), before)
}

// asInstalled looks at what the package has brought: made is the folder that it was made in.
func asInstalled(t *testing.T, made string) {
	t.Helper()
	rig.Same(t, sh(t, "stat -c '%A %U %G %n' /etc/authz /etc/authz/* /usr/bin/authz"), `drwxr-xr-x root root /etc/authz
-rw-r----- root www-data /etc/authz/limits.toml
-rwxr-xr-x root root /usr/bin/authz
`)
	for name, text := range rig.ShippedIncludes(t) {
		rig.Same(t, rig.ReadText(t, "/etc/nginx/"+name), text)
	}
	rig.Same(t, sh(t, "man --warnings -l "+made+"/authz.1.gz 2>&1 >/dev/null; systemd-analyze --man=no verify authz.service"), "")
	if libraries, _ := exec.Command("ldd", "/usr/bin/authz").CombinedOutput(); !strings.Contains(string(libraries), "not a dynamic executable") {
		t.Errorf("not static: %s", libraries)
	}
	notices := rig.ReadText(t, made+"/copyright")
	for _, m := range regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(sh(t, "go version -m /usr/bin/authz"), -1) {
		if !strings.Contains(notices, "\n"+m[1]+" "+m[2]+": ") {
			t.Errorf("the copyright file lacks the license of %s %s", m[1], m[2])
		}
	}

	// What the Dockerfile builds is the same binary, byte for byte, and what it copies is there.
	build := submatch(t, rig.ReadText(t, "../deploy/Dockerfile"), `(?m)^RUN (CGO_ENABLED=0 .*)$`)
	sh(t, "cd ..; VERSION=0.0.1"+testMark+"; "+strings.Replace(build, "-o /authz", "-o "+made+"/again", 1)+"; cmp "+made+"/again /usr/bin/authz; ls go.mod go.sum deploy/notices")
}

// 1.4 of 10 by systemd 252, which calls less than 2 well protected; others count a little differently.
func TestTheUnitIsHardened(t *testing.T) {
	sh(t, "systemd-analyze security --offline=yes --threshold=19 ../deploy/authz.service >/dev/null")
}

// sh runs a command as root, which CI is, and fails with what it said.
func sh(t testing.TB, command string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}
