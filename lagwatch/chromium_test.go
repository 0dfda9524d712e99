package lagwatch

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// browser starts a Chromium, or skips the test and says why.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("TENANTLANE_REQUIRE_CHROMIUM") == "1" {
			t.Fatal("TENANTLANE_REQUIRE_CHROMIUM=1, and there is no chromium")
		}
		t.Skip("there is no chromium; install it, or let CI do so")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	limited, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	allocator, stop := chromedp.NewExecAllocator(limited, opts...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	return ctx
}

// audit runs in the page: what overflows, what has too little contrast, what a
// keyboard cannot reach, what has no name.
const audit = `(() => {
  const out = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) out.push('the page is ' + root.scrollWidth + ' wide in ' + root.clientWidth);
  const rgb = s => { const m = s.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m; };
  const lum = c => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = el => { for (; el; el = el.parentElement) { const c = rgb(getComputedStyle(el).backgroundColor); if (c) return c; } return [255, 255, 255]; };
  for (const el of document.querySelectorAll('body *')) {
    const text = [...el.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!text || el.closest('svg') || el.classList.contains('skip')) continue;
    const a = lum(rgb(getComputedStyle(el).color)), b = lum(paper(el));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) out.push('contrast ' + ratio.toFixed(2) + ': ' + el.tagName + ' ' + el.textContent.trim().slice(0, 40));
    const box = el.getBoundingClientRect();
    if (box.right > root.clientWidth + 1 && !el.closest('.scroll')) out.push('sticks out: ' + el.tagName + ' ' + el.textContent.trim().slice(0, 40));
  }
  for (const el of document.querySelectorAll('a, button, input, select, textarea, summary, [tabindex]')) {
    if (el.tabIndex < 0) out.push('not reachable: ' + el.outerHTML.slice(0, 80));
    const label = el.getAttribute('aria-label') || el.textContent.trim() || (el.labels && el.labels.length && el.labels[0].textContent);
    if (!label) out.push('no name: ' + el.outerHTML.slice(0, 80));
  }
  return out;
})()`

// The page in a real browser, light, dark and on a phone, with 50 groups of
// 1,000 partitions: nothing sticks out, all text can be read, every control has
// a name and is reached by keyboard. TENANTLANE_SCREENSHOTS keeps the pictures.
func TestPageInChromium(t *testing.T) {
	ctx := browser(t)
	e := crowd(time.Now(), 50, 1000)
	heat := newHeatMap()
	for i := range 60 {
		past := crowd(e.At.Add(time.Duration(i-60)*time.Minute), 50, 1000)
		if i%9 != 0 {
			past.Groups = past.Groups[:1]
		}
		heat.add(past, heatColumn)
	}
	heat.add(e, heatColumn)
	w, err := newWeb(func() *Evaluation { return e }, heat)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	w.register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	dir := os.Getenv("TENANTLANE_SCREENSHOTS")
	for name, path := range map[string]string{"overview": "/", "pool": poolLink(e.Groups[0].Group, "orders", lag.SharedPool)} {
		for _, look := range []struct {
			name   string
			scheme string
			width  int64
		}{{"light", "light", 1280}, {"dark", "dark", 1280}, {"phone", "light", 360}, {"phone-dark", "dark", 360}} {
			scheme := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}}
			err := chromedp.Do(ctx, chromedp.EmulateViewport(look.width, 900), chromedp.Navigate(server.URL+path))
			if err == nil {
				_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, scheme)
			}
			if err != nil {
				t.Fatal(err)
			}
			problems, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](audit))
			if err != nil {
				t.Fatal(err)
			}
			picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range problems {
				t.Errorf("%s, %s: %s", name, look.name, p)
			}
			if len(picture) < 10_000 {
				t.Errorf("%s, %s: the picture is empty", name, look.name)
			}
			if dir != "" {
				if err := os.WriteFile(filepath.Join(dir, "lagwatch-"+name+"-"+look.name+".png"), picture, 0o600); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
