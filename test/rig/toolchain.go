package rig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coordd/coordd/test/e2e/app"
)

// KafkaVersion is the version of the jars: client, Streams, broker and tools.
const KafkaVersion = "4.4.0"

// OldKafka is the last release before transactions of the second generation (transaction.version 2, KIP-890): see
// [Java.Version].
const OldKafka = "3.9.2"

// ErrNoJava says that a JDK 17 or Maven is missing; the message says which and what to do.
var ErrNoJava = errors.New("JDK 17 and Maven are needed")

// Java is what runs Java programs: the jars of Kafka and the compiled Streams application.
type Java struct {
	Jars    string // folder
	Classes string // folder
	Log4j   string // file
}

// CacheDir is where jars and classes are kept between runs: COORDD_E2E_CACHE, else ~/.cache/coordd-e2e.
func CacheDir() (string, error) {
	if dir := os.Getenv("COORDD_E2E_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".cache", "coordd-e2e"), nil
}

// Prepare fetches the jars with Maven and compiles the application where the cache does not hold them yet. Several
// processes may call it at once. The error is ErrNoJava when the tools are missing.
func Prepare(ctx context.Context) (*Java, error) {
	if err := checkJDK(ctx); err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(cache, ".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	sources, hash, err := unpack(cache)
	if err != nil {
		return nil, err
	}
	j := &Java{Jars: filepath.Join(cache, KafkaVersion), Classes: filepath.Join(cache, "classes-"+hash), Log4j: filepath.Join(sources, "log4j2.properties")}
	if err := fetchJars(ctx, filepath.Join(sources, "pom.xml"), KafkaVersion, j.Jars); err != nil {
		return nil, err
	}
	return j, compile(ctx, sources, j)
}

// Version is the same with the jars of another version of Kafka, to start brokers of it. The Streams application stays one of
// KafkaVersion.
func (j *Java) Version(ctx context.Context, version string) (*Java, error) {
	cache := filepath.Dir(j.Jars)
	unlock, err := lock(filepath.Join(cache, ".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	sources, _, err := unpack(cache)
	if err != nil {
		return nil, err
	}
	other := *j
	other.Jars = filepath.Join(cache, version)
	return &other, fetchJars(ctx, filepath.Join(sources, "pom.xml"), version, other.Jars)
}

var javaVersion = regexp.MustCompile(`javac (\d+)`)

func checkJDK(ctx context.Context) error {
	out, err := run(ctx, nil, "", "javac", "-version")
	if err != nil {
		return fmt.Errorf("%w: no javac on the PATH (install a JDK 17 or newer)", ErrNoJava)
	}
	m := javaVersion.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("%w: javac -version says %q", ErrNoJava, strings.TrimSpace(out))
	}
	if v, _ := strconv.Atoi(m[1]); v < 17 {
		return fmt.Errorf("%w: javac is version %s, older than 17", ErrNoJava, m[1])
	}
	if _, err := exec.LookPath("java"); err != nil {
		return fmt.Errorf("%w: no java on the PATH", ErrNoJava)
	}
	return nil
}

func fetchJars(ctx context.Context, pom, version, dir string) error {
	complete := filepath.Join(dir, ".complete")
	if _, err := os.Stat(complete); err == nil {
		return nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("%w: no mvn on the PATH, it fetches the Kafka %s jars into %s once", ErrNoJava, version, dir)
	}
	if _, err := run(ctx, nil, "", "mvn", "-q", "-B", "-f", pom, "-Dkafka.version="+version,
		// brokers before 4.0 bring a logger of their own: the one with our settings shall be the only one
		"dependency:copy-dependencies", "-DexcludeArtifactIds=slf4j-reload4j", "-DoutputDirectory="+dir); err != nil {
		return fmt.Errorf("fetch the Kafka jars: %w", err)
	}
	return os.WriteFile(complete, nil, 0o644)
}

// unpack writes the embedded files into a folder of the cache that is named after their content.
func unpack(cache string) (dir, hash string, err error) {
	h := sha256.New()
	files := map[string][]byte{}
	err = fs.WalkDir(app.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := app.Files.ReadFile(path)
		files[path] = b
		_, _ = fmt.Fprintf(h, "%s %d\n%s", path, len(b), b)
		return err
	})
	if err != nil {
		return "", "", err
	}
	hash = hex.EncodeToString(h.Sum(nil))[:12]
	dir = filepath.Join(cache, "app-"+hash)
	for path, b := range files {
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", "", err
		}
		if err := os.WriteFile(file, b, 0o644); err != nil {
			return "", "", err
		}
	}
	return dir, hash, nil
}

func compile(ctx context.Context, sources string, j *Java) error {
	main := filepath.Join(j.Classes, filepath.FromSlash(strings.ReplaceAll(app.Main, ".", "/"))+".class")
	if _, err := os.Stat(main); err == nil {
		return nil
	}
	var java []string
	err := filepath.WalkDir(filepath.Join(sources, "src"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".java") {
			java = append(java, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	argv := append([]string{"javac", "-nowarn", "--release", "17", "-d", j.Classes, "-cp", filepath.Join(j.Jars, "*")}, java...)
	_, err = run(ctx, nil, "", argv...)
	return err
}

func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// argv is a java command for a main class. Serial collector and the first compiler tier only suit programs that live
// seconds; a server under measurement asks for the full compiler.
func (j *Java) argv(heap string, full bool, class string, args ...string) []string {
	argv := []string{"java", "-Xmx" + heap, "-XX:+UseSerialGC"}
	if !full {
		argv = append(argv, "-XX:TieredStopAtLevel=1")
	}
	cp := j.Classes + string(os.PathListSeparator) + filepath.Join(j.Jars, "*")
	return append(append(argv, "-Dlog4j2.configurationFile="+j.Log4j, "-cp", cp, class), args...)
}

// Build compiles packages of this module into dir and returns the paths of the binaries, named as the last element of
// the package.
func Build(ctx context.Context, dir string, packages ...string) ([]string, error) {
	var out []string
	for _, pkg := range packages {
		bin := filepath.Join(dir, filepath.Base(pkg))
		if err := build(ctx, ".", pkg, bin); err != nil {
			return nil, err
		}
		out = append(out, bin)
	}
	return out, nil
}

// BuildModule compiles the command that is a module of its own in a folder of this repository.
func BuildModule(ctx context.Context, dir, folder string) (string, error) {
	bin := filepath.Join(dir, filepath.Base(folder))
	return bin, build(ctx, folder, ".", bin)
}

func build(ctx context.Context, folder, pkg, bin string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	_, err = run(ctx, nil, filepath.Join(root, filepath.FromSlash(folder)), "go", "build", "-o", bin, pkg)
	return err
}

// Root is the folder of the module's go.mod, known from where this file was compiled.
func Root() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("the path of the sources is unknown")
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return "", fmt.Errorf("the sources are not where they were compiled (do not use -trimpath): %w", err)
	}
	return root, nil
}
